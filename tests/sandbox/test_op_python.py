"""`calls` and `tests` in the real sandbox: what comes back, and what an answer can do to it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prefkit.sandbox.job import CodeJob, CodeResult
from prefkit.sandbox.tamper import EXIT

sys.path.append(str(Path(__file__).parents[1] / "verify"))
from code_judge import Judge, open_pool  # pyright: ignore[reportMissingImports]

Run = Callable[..., CodeResult]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


@pytest.fixture
def calls(judge: Judge) -> Run:
    def calls(code: str, *arguments: Any, entry: str = "f", **files: str) -> CodeResult:
        message = {"module": "solution", "also": [], "entry": entry, "files": {"solution.py": code, **files}}
        return judge.run(CodeJob("calls", message | {"cases": [{"args": list(given), "kwargs": {}} for given in arguments]}, cpu_s=0.5))

    return calls


@pytest.fixture
def tests(judge: Judge) -> Run:
    def tests(code: str, *texts: str, path: str | None = None, names: tuple[str, ...] = ("",), entry: str | None = None) -> CodeResult:
        message = {"module": "solution", "also": [], "entry": entry, "files": {"solution.py": code}, "token": "secret"}
        return judge.run(
            CodeJob("tests", message | {"tests": [{"path": path, "code": text, "names": list(names)} for text in texts]}, cpu_s=0.5)
        )

    return tests


def test_values_come_back_in_order(calls: Run) -> None:
    value = calls("def f(a, b=2):\n    return (a, b)", [1], [1, {"$tuple": [3]}]).value
    assert value == {"cases": [{"value": {"$tuple": [1, 2]}}, {"value": {"$tuple": [1, {"$tuple": [3]}]}}]}


def test_arguments_are_made_anew_for_each_case(calls: Run) -> None:
    value = calls("kept = []\ndef f(a):\n    a.append(1)\n    kept.append(a)\n    return kept", [[]], [[]]).value
    assert value == {"cases": [{"value": [[1]]}, {"value": [[1], [1]]}]}


def test_exceptions_are_described(calls: Run) -> None:
    code = "class Own(ValueError):\n    pass\ndef f(x):\n    if x:\n        raise Own('text')\n    return {}[x]"
    first, second = calls(code, [1], [0]).value["cases"]
    assert first["raised"]["type"] == "Own"
    assert first["raised"]["bases"] == ["own Own", "ValueError"]
    assert (first["raised"]["message"], first["raised"]["line"]) == ("text", 5)
    assert second["raised"]["bases"] == ["KeyError", "LookupError"]


def test_generators_and_coroutines_are_run(calls: Run) -> None:
    assert calls("def f(n):\n    yield from range(n)", [2]).value == {"cases": [{"value": {"$generator": [0, 1]}}]}
    assert calls("async def f(n):\n    return n", [2]).value == {"cases": [{"value": 2}]}
    assert calls("def f():\n    yield 1\n    raise OSError", []).value["cases"][0]["raised"]["type"] == "OSError"
    assert calls("def f():\n    while True:\n        yield 1", []).value == {"cases": [{"value": {"$cut": "items"}}]}


def test_entries(calls: Run) -> None:
    code = "class A:\n    def f(self, x):\n        return x\n    @staticmethod\n    def g(x):\n        return -x"
    assert calls(code, [1], entry="A.f").value == {"cases": [{"value": 1}]}
    assert calls(code, [1], entry="A.g").value == {"cases": [{"value": -1}]}
    assert "missing" in calls(code, [1], entry="h").value
    assert calls("x = (", [1]).value["failed"]["type"] == "SyntaxError"


def test_other_modules_of_the_folder_can_be_imported(calls: Run) -> None:
    value = calls("from pkg.part import g\ndef f(x):\n    return g(x)", [1], **{"pkg/part.py": "def g(x):\n    return x + 1"}).value
    assert value == {"cases": [{"value": 2}]}


def test_random_numbers_are_the_same_each_time(calls: Run) -> None:
    code = "import random\ndef f():\n    return random.random()"
    assert calls(code, []).value == calls(code, []).value


def test_nothing_of_prefkit_is_within_easy_reach(calls: Run) -> None:
    code = "import sys\ndef f():\n    return [n for n in sys.modules if n.startswith('prefkit')] + list(vars(sys.modules['__main__']))[8:]"
    assert calls(code, []).value == {"cases": [{"value": []}]}


def test_tests_are_reported_one_by_one(tests: Run) -> None:
    value = tests("def f():\n    return 1", "assert f() == 1", "assert f() == 2", "f(3)").value
    assert value["token"] == "secret"
    assert [row[:3] for row in value["tests"]] == [[0, "", "passed"], [1, "", "failed"], [2, "", "error"]]


FILE = """
import unittest, pytest
from solution import f

class TestF(unittest.TestCase):
    def setUp(self): self.one = 1
    def test_right(self): self.assertEqual(f(self.one), 1)
    def test_wrong(self): self.assertEqual(f(1), 2)
    def test_error(self): f()
    @unittest.skip("no")
    def test_skipped(self): pass

class TestPlain:
    def setup_method(self): self.one = 1
    def test_one(self): assert f(self.one) == 1

@pytest.mark.parametrize("a,b", [(1, 1), (2, 2)])
def test_many(a, b): assert f(a) == b

@pytest.mark.parametrize("a", [1, 3])
def test_many_wrong(a): assert f(a) == 1

@pytest.mark.parametrize("a", [])
def test_none(a): pass

@pytest.mark.skip
def test_skipped(): pass

def test_raises():
    with pytest.raises(TypeError, match="argument"): f()

def test_raises_nothing():
    with pytest.raises(TypeError): f(1)

def test_near(): assert [f(0.1 + 0.2)] == pytest.approx([0.3])
async def test_later(): assert f(1) == 1
"""


def test_unittest_and_pytest_files(tests: Run) -> None:
    wanted = {
        "TestF.test_right": "passed", "TestF.test_wrong": "failed", "TestF.test_error": "error", "TestF.test_skipped": "failed",
        "TestPlain.test_one": "passed", "test_many": "passed", "test_many_wrong": "failed", "test_none": "failed", "test_skipped": "failed",
        "test_raises": "passed", "test_raises_nothing": "failed", "test_near": "passed", "test_later": "passed",
    }  # fmt: skip
    value = tests("def f(x):\n    return x", FILE, path="tests/test_f.py", names=tuple(wanted)).value
    assert {row[1]: row[2] for row in value["tests"]} == wanted


def test_check_functions(tests: Run) -> None:
    check = "def check(candidate):\n    assert candidate(1) == 1"
    assert tests("def f(x):\n    return x", check, names=("check",), entry="f").value["tests"][0][2] == "passed"
    assert tests("def f(x):\n    return 2", check, names=("check",), entry="f").value["tests"][0][2] == "failed"


def test_an_answers_own_builtins_do_not_judge_it(tests: Run) -> None:
    value = tests(
        "def all(x):\n    return True\nabs = len\ndef f():\n    return 9", "assert all([f() == 1])", "assert abs(f() - 1) < 1"
    ).value
    assert [row[2] for row in value["tests"]] == ["failed", "failed"]


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys._getframe(1)",
        "import inspect\ninspect.stack()",
        "import inspect\ninspect.currentframe().f_back",
        "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame",
        "def g():\n    yield\nx = g()\nx.gi_frame",
        "import gc\ngc.get_objects()",
        "import gc\ngc.get_referrers(gc)",
        "import sys\nsys.settrace(lambda *a: None)",
        "import threading\nthreading.settrace(lambda *a: None)\nt = threading.Thread(target=print)\nt.start()\nt.join()",
        "import sys\nsys._current_frames()",
        "import builtins\nbuiltins.all = lambda x: True",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None",
        "import json\njson.dumps = lambda *a, **k: '{}'",
        "import unittest.case\nunittest.case.TestCase.run = lambda *a: None",
        "import math\nmath.isclose = lambda *a, **k: True",
        "import random\nrandom.randint = lambda a, b: a",
    ],
)
def test_reaching_for_the_tests_ends_the_process(tests: Run, code: str) -> None:
    result = tests(code + "\ndef f():\n    return 0", "import random\nassert f() == 1")
    assert (result.status, result.exit) == ("crash", EXIT)


@pytest.mark.parametrize(
    "code",
    [
        "from collections import namedtuple\nP = namedtuple('P', 'x y')",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int",
        "import enum\nclass C(enum.Enum):\n    A = 1",
        "from typing import NamedTuple, TypeVar\nT = TypeVar('T')\nclass N(NamedTuple):\n    a: int",
        "import logging\nlogging.getLogger('x').warning('y')",
        "import warnings\nwarnings.warn('x')",
        "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()",
        "import functools, inspect\ninspect.signature(len)",
        "import numpy as np\nnp.array([1]).mean()",
        "import sys\nsys.setrecursionlimit(3000)",
        "def print(*a):\n    pass",
    ],
)
def test_ordinary_code_is_not_taken_for_tampering(tests: Run, code: str) -> None:
    assert [row[2] for row in tests(code + "\ndef f():\n    return 1", "assert f() == 1").value["tests"]] == ["passed"]
