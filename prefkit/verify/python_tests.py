"""Which tests stand in the test texts of a Python task, so that each of them can be asked for after the run.

| text                                            | its tests                                                 |
|-------------------------------------------------|-----------------------------------------------------------|
| `assert f(1) == 2`, a script with checks in it  | one, without a name: the text runs to its end             |
| defines `check(candidate)`, which no text calls | `check`, called with the entry                            |
| functions `test_…`, also in a file              | one each; with parametrize one for all sets of parameters |
| `class TestX(unittest.TestCase)`, `class TestX` | one for each method `test…`                               |
| imports, assignments, definitions alone         | none: it makes ready for others                           |

A text that does not parse, a test that asks for a fixture, `check` without an entry, and a list without any test are the task's fault.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from prefkit.verify.code_text import parsed
from prefkit.verify.json_text import shown
from prefkit.verify.verifier import Unverifiable

_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


@dataclass(frozen=True, slots=True)
class TaskTest:
    """One text or file of tests. path: None for a text. names: its tests; "" is the text as a whole. tests: how many of them count."""

    path: str | None
    code: str
    names: tuple[str, ...]
    counts: bool


def is_test_file(path: str) -> bool:
    return bool(_TEST_FILE.search(path))


def read_tests(tests: Any, files: dict[str, str], entry: str | None) -> tuple[TaskTest, ...]:
    """From a task: one text, a list of texts, or {path: text}; and the test files among its visible files. Files without tests come first.

    Raises ValueError for another shape and Unverifiable for tests that cannot be judged by.
    """
    hidden = tests if isinstance(tests, dict) else {}
    texts = [tests] if isinstance(tests, str) else tests if isinstance(tests, list) else []
    odd = next((text for text in (*texts, *hidden.values()) if not isinstance(text, str)), None)
    if odd is not None or not isinstance(tests, str | list | dict):
        found = f"; {shown(odd)} is no text" if odd is not None else f", not {shown(tests)}"
        raise ValueError(f'"tests" must be text, a list of texts, or an object of paths and texts{found}')
    visible = {path: text for path, text in files.items() if is_test_file(path) and path not in hidden}
    named: list[tuple[str | None, str]] = [(None, text) for text in texts]
    named += [*hidden.items(), *visible.items()]
    trees = [(path, text, _tree(path or f"test {number}", text)) for number, (path, text) in enumerate(named, 1)]
    called = any(_calls_check(tree) for _, _, tree in trees)
    found = [_read(path, text, tree, called) for path, text, tree in trees]
    if not any(test.counts for test in found):
        raise Unverifiable("no tests")
    if entry is None and any("check" in test.names for test in found):
        raise Unverifiable("tests define check(candidate), but the task names no entry")
    return tuple(sorted(found, key=lambda test: test.path is not None and test.counts))


def _tree(name: str, text: str) -> ast.Module:
    tree = parsed(text)
    if tree is None:
        raise Unverifiable(f"a test does not parse: {name}")
    return tree


def _read(path: str | None, text: str, tree: ast.Module, check_is_called: bool) -> TaskTest:
    names: list[str] = []
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            _no_fixture(node, 0)
            names.append(node.name)
        elif isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or _is_case(node, classes)):
            names += [f"{node.name}.{method.name}" for method in _methods(node, classes) if method.name.startswith("test")]
    if any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body) and not check_is_called:
        names.append("check")
    names = list(dict.fromkeys(names))
    return TaskTest(path, text, tuple(names or [""]), bool(names) or _checks_something(tree))


def _methods(owner: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 8) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    methods = [node for node in owner.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for method in methods:
        if method.name.startswith("test"):
            _no_fixture(method, 1)
    for base in owner.bases:
        if isinstance(base, ast.Name) and base.id in classes and depth:
            methods += _methods(classes[base.id], classes, depth - 1)
    return methods


def _is_case(owner: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 8) -> bool:
    for base in owner.bases:
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if name.endswith("TestCase") or (depth and name in classes and _is_case(classes[name], classes, depth - 1)):
            return True
    return False


def _no_fixture(test: ast.FunctionDef | ast.AsyncFunctionDef, first: int) -> None:
    arguments = [*test.args.posonlyargs, *test.args.args][first:]
    asked = {argument.arg for argument in arguments[: len(arguments) - len(test.args.defaults)]}
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and decorator.args and "parametrize" in ast.unparse(decorator.func):
            try:
                names = ast.literal_eval(decorator.args[0])
            except ValueError:
                return
            asked -= {name.strip() for name in names.split(",")} if isinstance(names, str) else set(names)
        elif not isinstance(decorator, ast.Call) or "patch" in ast.unparse(decorator.func):
            return  # a decorator that may pass arguments of its own
    if asked:
        raise Unverifiable(f"a test asks for a fixture: {min(asked)}")


def _calls_check(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(statement)
    )


def _checks_something(tree: ast.Module) -> bool:
    """Whether running the text can fail: an assertion, a raise or a call at its top level (in a loop or condition too)."""
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and isinstance(statement, ast.Expr | ast.For | ast.While | ast.With))
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
        for node in ast.walk(statement)
    )
