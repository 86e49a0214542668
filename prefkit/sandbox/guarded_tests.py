"""Run tests beside an answer: assert texts, `check(candidate)` functions, unittest classes and pytest-style functions. No pytest needed.

A test counts as passed when it was run to its end and nothing was raised. A skipped test was not run, so it is reported as failed. Which
tests there are was read from their text by the parent, which wants each of them reported; see verify/python_tests.py.

Texts share one namespace that begins with the answer's names. Names of builtins are left out of it (but for the entry), so that an
answer's own `abs` or `all` does not judge the answer. Test files are modules of their own, made from the text that the task gives and not
from what lies on the disk; `pytest` is the small stand-in of pytest_stand_in.py.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import inspect
import os
import sys
import types
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prefkit.sandbox import pytest_stand_in

Describe = Callable[[BaseException], dict[str, Any]]


@dataclass(slots=True)
class Plan:
    """Tests ready to run. modules: what they import from outside the answer, loaded before it."""

    items: list[tuple[str | None, Any, list[str]]] = field(default_factory=list)
    modules: list[Any] = field(default_factory=list)
    pytest: Any = None


def compiled(tests: list[dict[str, Any]]) -> Plan:
    """The tests as code objects. Their text was parsed by the parent, so it compiles."""
    plan = Plan(pytest=pytest_stand_in.module())
    here = {name.partition(".")[0] for name in os.listdir()}
    wanted: set[str] = set()
    for test in tests:
        tree = ast.parse(test["code"])
        wanted |= {name for name in _imports(tree) if name.partition(".")[0] not in here}
        plan.items.append((test["path"], compile(tree, f"<{test['path'] or 'test'}>", "exec", dont_inherit=True), test["names"]))
    for name in sorted(wanted - {"sys", "pytest"}):
        try:
            plan.modules.append(importlib.import_module(name))
        except Exception:  # the test itself will say so
            continue
    return plan


def run(plan: Plan, module: types.ModuleType, entry_name: str | None, entry: Any, describe: Describe) -> list[list[Any]]:
    """[index of the text or file, name of the test, outcome, exception or None] of each test, in order."""
    sys.modules["pytest"] = plan.pytest
    shared = _names_of(module, entry_name, entry)
    results: list[list[Any]] = []
    for index, (path, code, names) in enumerate(plan.items):
        space = shared if path is None else _new_module(path)
        failure = _failure(lambda code=code, space=space: exec(code, space), describe)
        for name in names:
            outcome = failure
            if failure is None and name:
                outcome = _failure(lambda name=name, space=space: _run_named(space, name, entry), describe)
            results.append([index, name, *(outcome or ("passed", None))])
    return results


def _failure(action: Callable[[], object], describe: Describe) -> tuple[str, Any] | None:
    try:
        action()
    except AssertionError as error:
        return "failed", describe(error)
    except (KeyboardInterrupt, SystemExit, GeneratorExit, Exception) as error:
        return "error", describe(error)
    except BaseException as error:  # exceptions that the answer derives from BaseException
        return "error", describe(error)
    return None


def _names_of(module: types.ModuleType, entry_name: str | None, entry: Any) -> dict[str, Any]:
    kept = {name: value for name, value in vars(module).items() if not hasattr(builtins, name) and not name.startswith("__")}
    if entry_name:
        kept[entry_name.rpartition(".")[2]] = entry
    return kept | {"__name__": "tests", "__builtins__": builtins}


def _new_module(path: str) -> dict[str, Any]:
    name = path.removesuffix(".py").replace("/", ".")
    module = types.ModuleType(name)
    module.__file__ = os.path.abspath(path)
    sys.modules[name] = module
    return vars(module)


def _run_named(space: dict[str, Any], name: str, entry: Any) -> None:
    """Run `check`, `test_x`, `TestX.test_y`. Raises what the test raises, AssertionError where it did not run."""
    if name == "check":
        space["check"](entry)
        return
    owner, _, method = name.rpartition(".")
    if not owner:
        _call(space[method])
    elif issubclass(space[owner], unittest.TestCase):
        _run_case(space[owner], method)
    else:
        instance = space[owner]()
        getattr(instance, "setup_method", lambda *_: None)(*_wanted(instance, "setup_method", method))
        _call(getattr(instance, method))
        getattr(instance, "teardown_method", lambda *_: None)(*_wanted(instance, "teardown_method", method))


def _wanted(instance: Any, hook: str, method: str) -> list[Any]:
    """Set-up methods may ask for the test method."""
    found = getattr(instance, hook, None)
    return [getattr(instance, method)] if found is not None and inspect.signature(found).parameters else []


def _call(test: Any) -> None:
    """Once, or for each set of parameters; at least once, or it did not run."""
    sets = pytest_stand_in.parameters(test)
    if not sets:
        raise AssertionError("the test has no set of parameters")
    for arguments in sets:
        outcome = test(**arguments)
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)


def _run_case(owner: type[unittest.TestCase], method: str) -> None:
    result = unittest.TestResult()
    unittest.TestSuite([owner(method)]).run(result)
    for _, text in (*result.errors, *result.failures):
        last = text.strip().rpartition("\n")[2]
        if any(text is failure for _, failure in result.failures):
            raise AssertionError(last)
        raise RuntimeError(last)
    if result.testsRun != 1 or result.skipped or result.unexpectedSuccesses:
        raise AssertionError("the test was not run")


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found
