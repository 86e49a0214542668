"""The Python verifier: values, exceptions, tests, projects, broken lines, and answers that cheat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_judge import SOURCE, Judge, open_pool
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.job import Answer, CodeResult
from prefkit.verify.python import PythonVerifier
from prefkit.verify.verdict import Judgement
from prefkit.verify.verifier import Unverifiable

ADD = "def f(a, b=2):\n    return a + b\n"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


def status(judgement: Judgement) -> str:
    return str(judgement.status)


def by_values(judge: Judge, answer: str, *cases: Any, **line: Any) -> Judgement:
    return judge("python", answer=answer, cases=list(cases), **{"entry": "f", "timeout": 0.5, **line})


def by_tests(judge: Judge, answer: str, *tests: str, **line: Any) -> Judgement:
    return judge("python", answer=answer, tests=list(tests), **{"timeout": 0.5, **line})


CASES = {
    "right": (ADD, [[[1, 2], 3], [[1.5], 3.5]], "PASS", "same values"),
    "wrong": (ADD, [[[1, 2], 3], [[1, 2], 4]], "WRONG", "wrong value"),
    "keywords": (ADD, [{"args": [1], "kwargs": {"b": 5}, "expected": 6}], "PASS", "same values"),
    "in free text": (f"Here:\n```python\n{ADD}```\nand its use\n```python\nf(1)\n```", [[[1, 2], 3]], "PASS", "same values"),
    "generator": ("def f(n):\n    yield from range(n)", [[[3], [0, 1, 2]]], "PASS", "same values"),
    "numpy": ("import numpy as np\ndef f(n):\n    return np.arange(n)", [[[3], [0, 1, 2]]], "PASS", "same values"),
    "pandas": (
        "import pandas as pd\ndef f():\n    return pd.Series([1, 2], name='n')",
        [[[], {"$series": {"kind": "i", "name": "n", "index": [0, 1], "items": [1, 2]}}]],
        "PASS",
        "same values",
    ),
    "random numbers": ("import random\ndef f():\n    return random.random()", [[[], 0.8444218515250481]], "PASS", "same values"),
    "numpy's random numbers": (
        "import numpy as np\nfirst = np.random.rand()\ndef f():\n    return [first, np.random.rand()]",
        [[[], [0.5488135039273248, 0.7151893663724195]]],
        "PASS",
        "same values",
    ),
    "numpy imported late": ("def f():\n    import numpy\n    return numpy.random.rand()", [[[], 0.5488135039273248]], "PASS", None),
    "numpy seeded by the answer": (
        "import numpy as np\nnp.random.seed(1)\ndef f():\n    return np.random.rand()",
        [[[], 0.417022004702574]],
        "PASS",
        None,
    ),
    "typed arguments": ("def f(x):\n    return x[1] - {1}", [[[{"$tuple": [0, {"$set": [1, 2]}]}], {"$set": [2]}]], "PASS", "same values"),
    "raises": ("def f(x):\n    raise KeyError(x)", [{"args": [1], "raises": "KeyError"}], "PASS", "same values"),
    "raises a base": ("def f(x):\n    raise KeyError(x)", [{"args": [1], "raises": "LookupError"}], "PASS", "same values"),
    "raises another": ("def f(x):\n    raise KeyError(x)", [{"args": [1], "raises": "ValueError"}], "WRONG", "raises the wrong exception"),
    "raises nothing": (ADD, [{"args": [1], "raises": "ValueError"}], "WRONG", "raises nothing"),
    "raises its own": ("class E(Exception):\n    pass\ndef f():\n    raise E", [{"raises": "E"}], "PASS", "same values"),
    "a namesake": ("class ValueError(Exception):\n    pass\ndef f():\n    raise ValueError", [{"raises": "ValueError"}], "WRONG", None),
    "an exception of every kind": (
        "class E(ValueError, KeyError, TypeError):\n    pass\ndef f():\n    raise E",
        [{"raises": "ValueError"}],
        "WRONG",
        "raises the wrong exception",
    ),
    "raises where a value is expected": ("def f(x):\n    return x[0]", [[[1], 1]], "CRASH", "raises TypeError"),
    "no code": ("I do not know.", [[[1, 2], 3]], "WRONG", "no code in the answer"),
    "no entry": ("def g():\n    pass", [[[1], 1]], "WRONG", "entry is not defined"),
    "syntax error": ("def f(:\n    return 1", [[[1], 1]], "CRASH", "SyntaxError while loading"),
    "an error while loading": ("import nothing_of_this_name\ndef f():\n    pass", [[[1], 1]], "CRASH", "ModuleNotFoundError while loading"),
    "main block": (ADD + "if __name__ == '__main__':\n    input()", [[[1, 2], 3]], "PASS", "same values"),
    "too much": ("def f():\n    return list(range(10**6))", [[[], 1]], "LIMIT", "limit: items of a value"),
    "endless": ("def f():\n    while True:\n        pass", [[[], 1]], "TIMEOUT", None),
    "object": ("class A:\n    pass\ndef f():\n    return A()", [[[], 1]], "WRONG", "wrong value"),
}


@pytest.mark.parametrize(("answer", "cases", "wanted", "reason"), CASES.values(), ids=CASES.keys())
def test_cases(judge: Judge, answer: str, cases: list[Any], wanted: str, reason: str | None) -> None:
    heavy = "pandas" in answer or "numpy" in answer  # their import alone takes half a second
    found = by_values(judge, answer, *cases, timeout=5.0 if heavy else 0.5)
    assert (status(found), found.reason) == (wanted, reason or found.reason)


def test_tolerance(judge: Judge) -> None:
    third = "def f():\n    return 0.3333"
    assert status(by_values(judge, third, [[], 1 / 3])) == "WRONG"
    assert status(by_values(judge, third, [[], 1 / 3], tolerance=1e-3)) == "PASS"


def test_what_is_expected_never_enters_the_sandbox(judge: Judge) -> None:
    by_values(judge, ADD, [[1, 2], 424242], {"args": [1], "raises": "ZeroDivisionError"})
    message = json.dumps(judge.jobs[-1].message)
    assert "424242" not in message
    assert "ZeroDivisionError" not in message


def test_feedback_shows_the_call_and_nothing_of_what_is_expected(judge: Judge) -> None:
    found = by_values(judge, ADD, [[1, 2], 424242])
    assert found.feedback == "f(1, 2) returns 3, which is wrong."
    assert by_values(judge, "def f(x):\n    return x.y", [[1], 1]).feedback == (
        "f(1) raises AttributeError: 'int' object has no attribute 'y' (line 2)."
    )


TESTS = {
    "right": (ADD, ["assert f(1) == 3", "assert f(1, 1) == 2"], "PASS", "all tests pass"),
    "one fails": (ADD, ["assert f(1) == 3", "assert f(1, 1) == 3"], "WRONG", "a test fails"),
    "one raises": (ADD, ["f()"], "CRASH", "raises TypeError"),
    "setup for others": (ADD, ["import math\nTWO = 2", "assert f(1) == TWO + math.floor(1.5)"], "PASS", "all tests pass"),
    "check is called": (ADD, ["def check(c):\n    assert c(1) == 3"], "PASS", "all tests pass"),
    "check fails": (ADD, ["def check(c):\n    assert c(1) == 4"], "WRONG", "a test fails"),
    "functions": (ADD, ["def test_one():\n    assert f(1) == 3\ndef test_two():\n    assert f(2) == 3"], "WRONG", "a test fails"),
    "no test": (ADD, ["import math\nx = 1"], "UNVERIFIABLE", "no tests"),
    "empty": (ADD, [], "UNVERIFIABLE", "no tests"),
    "broken test": (ADD, ["assert f(1 =="], "UNVERIFIABLE", "a test does not parse: test 1"),
    "a fixture": (ADD, ["def test_one(tmp_path):\n    assert f(1) == 3"], "UNVERIFIABLE", "a test asks for a fixture: tmp_path"),
}


@pytest.mark.parametrize(("answer", "tests", "wanted", "reason"), TESTS.values(), ids=TESTS.keys())
def test_tests(judge: Judge, answer: str, tests: list[str], wanted: str, reason: str) -> None:
    found = by_tests(judge, answer, *tests, entry="f")
    assert (status(found), found.reason) == (wanted, reason)


def test_check_without_an_entry_is_the_tasks_fault(judge: Judge) -> None:
    assert status(by_tests(judge, ADD, "def check(c):\n    assert c(1) == 3")) == "UNVERIFIABLE"


def test_trust_says_where_the_tests_ran() -> None:
    verifier = PythonVerifier()
    assert verifier.trust(verifier.read({"answer": "", "tests": ["assert f()"]}, "1", SOURCE)) == "in_process"
    assert verifier.trust(verifier.read({"answer": "", "entry": "f", "cases": [[[], 1]]}, "1", SOURCE)) == "executed"


SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": "from shop.price import price\ndef total(xs):\n    return 0\n",
    "shop/price.py": "RATE = 2\ndef price(x):\n    return RATE * x\n",
    "tests/test_cart.py": "from shop.cart import total\ndef test_total():\n    assert total([1, 2]) == 6\n",
}
HIDDEN = {"tests/test_price.py": "from shop.price import price\ndef test_price():\n    assert price(2) == 4\n"}
RIGHT = "from shop.price import price\ndef total(xs):\n    return sum(map(price, xs))\n"
SIDE_EFFECT = "import shop.price\nshop.price.RATE = 3\ndef total(xs):\n    return 2 * sum(xs)\n"
IN_CALL = "import shop.price\ndef total(xs):\n    shop.price.RATE = 3\n    return 2 * sum(xs)\n"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (f"```python shop/cart.py\n{RIGHT}```", "PASS"),
        (f"```python\n# shop/cart.py\n{RIGHT}```", "PASS"),
        (f"```python\n{RIGHT}```", "PASS"),
        (f"```python\n{RIGHT.replace('sum', 'len')}```", "CRASH"),
        (f"```python\n{RIGHT.replace('xs))', 'xs)) + 1')}```", "WRONG"),
        (f"```python\n{SIDE_EFFECT}```", "WRONG"),
        (f"```python shop/cart.py\n{RIGHT}```\n```python shop/price.py\ndef price(x):\n    return 2 * x + (x == 2)\n```", "WRONG"),
        (f"```python shop/cart.py\n{RIGHT}```\n```python tests/test_cart.py\ndef test_total():\n    pass\n```", "PASS"),
        ("```python tests/test_cart.py\ndef test_total():\n    pass\n```", "WRONG"),
        (f"```python shop/cart.py\n{RIGHT}```\n```python json.py\nx = 1\n```", "POLICY"),
        (f"```python shop/cart.py\n{RIGHT}```\n```python conftest.py\nx = 1\n```", "POLICY"),
    ],
    ids=["label", "comment", "target", "wrong type", "wrong", "side effect", "other file", "test kept", "test alone", "json", "conftest"],
)
def test_projects(judge: Judge, answer: str, wanted: str) -> None:
    assert status(judge("python", answer=answer, files=SHOP, tests=HIDDEN, target="shop/cart.py", timeout=0.5)) == wanted


def test_a_side_effect_of_a_call_is_seen_by_the_tests_after_it(judge: Judge) -> None:
    hidden = {"tests/test_z.py": HIDDEN["tests/test_price.py"]}
    files = {path: text for path, text in SHOP.items() if not path.startswith("tests")}
    first = {"tests/test_a.py": SHOP["tests/test_cart.py"]}
    found = judge("python", answer=f"```python\n{IN_CALL}```", files=files, tests=first | hidden, target="shop/cart.py", timeout=0.5)
    assert status(found) == "WRONG"


def test_cases_of_a_project(judge: Judge) -> None:
    answer = f"```python\n{RIGHT}```"
    found = judge("python", answer=answer, files=SHOP, target="shop/cart.py", entry="shop.cart:total", cases=[[[[1, 2]], 6]])
    assert status(found) == "PASS"


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"cases": [[[1], 1]]},
        {"entry": "f", "cases": [[[1], 1]], "tests": ["assert f(1)"]},
        {"entry": "f()", "cases": [[[1], 1]]},
        {"entry": 1, "cases": [[[1], 1]]},
        {"entry": "f", "cases": 1},
        {"entry": "f", "cases": [[1, 1]]},
        {"entry": "f", "cases": [[[1]]]},
        {"entry": "f", "cases": [{"args": [1]}]},
        {"entry": "f", "cases": [{"args": 1, "expected": 1}]},
        {"entry": "f", "cases": [{"args": [1], "raises": "no name"}]},
        {"entry": "f", "cases": [[[{"$nothing": 1}], 1]]},
        {"entry": "f", "cases": [[[1], 1]], "tolerance": -1},
        {"entry": "f", "cases": [[[1], 1]], "timeout": 0},
        {"entry": "f", "cases": [[[1], 1]], "files": {"../x.py": ""}},
        {"entry": "f", "cases": [[[1], 1]], "files": []},
        {"entry": "f", "cases": [[[1], 1]], "target": "/x.py"},
        {"tests": 1},
        {"tests": [1]},
    ],
)
def test_broken_lines_are_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r'"|case'):
        PythonVerifier().read({"answer": ADD, **line}, "1", SOURCE)


def test_no_cases_is_the_tasks_fault() -> None:
    with pytest.raises(Unverifiable, match="no cases"):
        PythonVerifier().read({"answer": ADD, "entry": "f", "cases": []}, "1", SOURCE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["cases", "tests", "value", "raised", "failed", "missing", "token", "type", "bases", "outcome", "line", "$cut", "$int"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
LINES = [{"entry": "f", "cases": [[[1], 1], {"args": [], "raises": "ValueError"}]}, {"tests": ["assert f(1) == 1"]}]


@pytest.mark.parametrize("line", LINES, ids=["cases", "tests"])
@given(value=JSON)
@settings(max_examples=200, deadline=None)
def test_whatever_comes_back_gives_a_judgement_and_never_a_pass(line: dict[str, Any], value: Any) -> None:
    verifier = PythonVerifier()
    steps = verifier.judge(verifier.read({"answer": "def f(x):\n    return 1", **line}, "1", SOURCE))
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Answer([CodeResult("ok", value=value)]))
    assert end.value.value.status in ("WRONG", "CRASH", "TAMPER", "LIMIT", "POLICY")


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
@settings(max_examples=100, deadline=None)
def test_any_answer_is_read(text: str) -> None:
    verifier = PythonVerifier()
    for line in LINES:
        check = verifier.read({"answer": text, **line}, "1", SOURCE)
        json.dumps(verifier.key(check))
        step = next(verifier.judge(check), None)
        assert step is None or step.line()


def test_shared_cases(judge: Judge, shared: Path) -> None:
    lines = [json.loads(line) for line in (shared / "cases.jsonl").read_text("utf-8").splitlines()]
    lines = [line for line in lines if line.get("verifier") == "python"]
    assert len(lines) >= 5
    for line in lines:
        known = {name: value for name, value in line.items() if name not in ("id", "verifier", "want", "why", "source")}
        assert status(judge("python", **known)) in line["want"], line
