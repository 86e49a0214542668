"""The program verifier: output for input, in four languages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from code_judge import SOURCE, Judge, open_pool
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.output_compare import difference
from prefkit.verify.program import ProgramVerifier
from prefkit.verify.values_compare import Tolerance
from prefkit.verify.verifier import Unverifiable

DOUBLE = {
    "python": "print(int(input()) * 2)",
    "bash": "read n\necho $((n * 2))",
    "javascript": "const n = parseInt(require('fs').readFileSync(0, 'utf8'))\nconsole.log(n * 2)",
    "c": '#include <stdio.h>\nint main(void) { int n; scanf("%d", &n); printf("%d\\n", n * 2); return 0; }',
}
TOOLS = {"javascript": "node", "c": "gcc", "bash": "bash"}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


@pytest.mark.parametrize("language", DOUBLE)
def test_languages(judge: Judge, language: str) -> None:
    tool = TOOLS.get(language)
    if tool and not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    answer = f"Like this:\n```{language}\n{DOUBLE[language]}\n```\n"
    assert judge("program", answer=answer, language=language, io=[["2\n", "4\n"], ["5\n", "10"]]).reason == "same output"
    wrong = judge("program", answer=answer, language=language, io=[["2\n", "4\n"], ["5\n", "11\n"]])
    assert (wrong.status, wrong.reason) == ("WRONG", "wrong output")
    assert wrong.feedback == "For the input '5\\n' the program prints '10\\n', which is wrong."


@pytest.mark.parametrize(
    ("language", "code", "wanted"),
    [
        ("python", "print(1)\nraise SystemExit(3)", "CRASH"),
        ("python", "print(", "CRASH"),
        ("python", "print(1 / 0)", "CRASH"),
        ("python", "import os\nprint(1, flush=True)\nos._exit(1)", "CRASH"),
        ("python", "while True:\n    pass", "TIMEOUT"),
        ("python", "while True:\n    print('x' * 1000)", "LIMIT"),
        ("python", "pass", "WRONG"),
        ("bash", "echo 1; exit 2", "CRASH"),
        ("python", "print(1)", "PASS"),
    ],
)
def test_ends(judge: Judge, language: str, code: str, wanted: str) -> None:
    assert judge("program", answer=f"```{language}\n{code}\n```", language=language, io=[["", "1\n"]], timeout=0.5).status == wanted


def test_c_that_does_not_compile(judge: Judge) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    assert judge("program", answer="```c\nint main( {\n```", language="c", io=[["", "1\n"]]).status == "CRASH"


def test_no_program(judge: Judge) -> None:
    assert judge("program", answer="", language="c", io=[["", "1"]]).reason == "no code in the answer"


def test_what_is_expected_never_enters_the_sandbox(judge: Judge) -> None:
    judge("program", answer="print(1)", language="python", io=[["", "424242"]])
    assert "424242" not in json.dumps(judge.jobs[-1].message)


@pytest.mark.parametrize(
    ("expected", "got", "reason"),
    [
        ("1\n", "1", None),
        ("1 \n2", "1\n2  \n\n", None),
        ("1\n2\n", "1\r\n2\r\n", None),
        ("1\n2", "1\n\n2", "wrong number of lines"),
        ("1", " 1", "wrong output"),
        ("a", "A", "wrong output"),
        ("1.0", "1", "wrong output"),
        ("1", "", "no output"),
        ("", "1", "wrong number of lines"),
    ],
)
def test_difference(expected: str, got: str, reason: str | None) -> None:
    assert difference(expected, got) == reason


def test_exact_output() -> None:
    assert difference("1\n", "1\n", exact=True) is None
    assert difference("1\n", "1", exact=True) == "wrong white space"
    assert difference("1\n", "2\n", exact=True) == "wrong output"


def test_tolerance() -> None:
    near = Tolerance.read(1e-3)
    assert difference("x 1.0 2", "x 1.0005  2", tolerance=near) is None
    assert difference("x 1.0", "x 1.1", tolerance=near) == "wrong output"
    assert difference("x 1.0", "y 1.0", tolerance=near) == "wrong output"
    assert difference("1", "nan", tolerance=near) == "wrong output"
    assert difference("1 2", "1", tolerance=near) == "wrong output"
    assert difference("1e999", "2e999", tolerance=near) == "wrong output"


@given(st.text(alphabet="ab1. \n\r\t", max_size=30))
@settings(deadline=None)
def test_output_agrees_with_itself(text: str) -> None:
    assert difference(text, text, exact=True) is None
    assert difference(text, text + "\n \n") is None
    assert difference(text, text.replace("\n", " \n")) is None


@pytest.mark.parametrize(
    "line",
    [
        {"language": "rust", "io": [["", "1"]]},
        {"io": [["", "1"]]},
        {"language": "c"},
        {"language": "c", "io": [["1"]]},
        {"language": "c", "io": [["1", 2]]},
        {"language": "c", "io": [["", "1"]], "exact": 1},
        {"language": "c", "io": [["", "1"]], "exact": True, "tolerance": 1},
        {"language": "c", "io": [["", "1"]], "tolerance": "x"},
    ],
)
def test_broken_lines_are_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match='"'):
        ProgramVerifier().read({"answer": "", **line}, "1", SOURCE)


@pytest.mark.parametrize("io", [[], [["1", ""]], [["1", " \n"], ["2", ""]]])
def test_nothing_expected_is_the_tasks_fault(io: list[list[str]]) -> None:
    with pytest.raises(Unverifiable):
        ProgramVerifier().read({"answer": "", "language": "c", "io": io}, "1", SOURCE)
