"""The comparison of mathematics in the real sandbox: LaTeX against LaTeX, each parsed as a whole."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefkit.sandbox.job import CodeJob

sys.path.append(str(Path(__file__).parents[1] / "verify"))
from code_judge import Judge, open_pool  # pyright: ignore[reportMissingImports]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


def compare(judge: Judge, gold: str, answer: str | None) -> dict[str, Any]:
    result = judge.run(CodeJob("math", {"gold": gold, "answer": answer}, cpu_s=5.0))
    assert result.status == "ok", result
    return result.value


EQUAL = [
    ("\\frac{1}{3}", "\\frac13"),
    ("0<x<12.5", "(0,12.5)"),
    ("(0,12.5)", "0<x<12.5"),
    ("\\frac{1}{2^{99}}", "2^{-99}"),
    ("D=(0,1)", "(0,1)"),
    ("\\pm 3", "-3,3"),
    ("3x-y+13=0", "y=3x+13"),
    ("2.5", "2\\frac12"),
    ("\\frac54", "(1+\\frac14)"),
    ("1,2", "\\{1,2\\}"),
    ("1,2", "2,1"),
    ("(1,2)", "1,2"),
    ("(1,2,3)", "1,2,3"),
    ("28\\%", "28"),
    ("28\\%", "0.28"),
    ("28", "28\\%"),
    ("10^{-7}", "0.0000001"),
    ("x^2/4+y^2/3=1", "3x^2+4y^2=12"),
    ("42", "x=42"),
    ("x=42", "42"),
    ("5", "2+3=5"),
    ("\\sqrt2", "1.41421356"),
    ("x>3", "3<x"),
    ("x>3", "(3,\\infty)"),
    ("x+1", "1+x"),
    ("(x+1)^2", "x^2+2x+1"),
    ("2^{10^9}", "2^{10^9}"),
    ("0", "\\sin(\\pi)"),
    ("3+4i", "4i+3"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
    ("\\frac{x}{7}+\\frac27", "\\frac{x+2}{7}"),
    ("\\sec^2(y)", "\\tan^2(y)+1"),
    ("x=1,y=2", "y=2,x=1"),
    ("100!", "100!"),
    ("5000!", "5000!"),
    ("\\emptyset", "\\emptyset"),
    ("\\infty", "\\infty"),
    ("x=y=5", "5"),
    ("a+b", "b+a"),
    ("\\log_2 8", "3"),
    ("0.333333", "\\frac13"),
    ("1.5\\times10^3", "1500"),
    ("\\text{even}", "\\text{even}"),
    ("x\\in(0,1)", "(0,1)"),
    ("y=2x+3", "2x+3"),
    ("2x+3", "y=2x+3"),
    ("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"),
    ("3/4", "0.75"),
    ("11", "11.0"),
    ("x=2", "2x=4"),
]

DIFFERENT = [
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}"),
    ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}"),
    ("n=2,3,4", "n=1,2,3"),
    ("D=(0,1)", "D=(0,1.5)"),
    ("1-\\frac{1}{e}", "1+\\frac1e"),
    ("\\pm 3", "3"),
    ("3x-y+13=0", "3x+4y+14=0"),
    ("x^2+1=0", "x^2+2=0"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "\\{1,2\\}"),
    ("\\{1,2\\}", "(1,2)"),
    ("0.28", "28"),
    ("0.0000001", "0.0000002"),
    ("10^{-7}", "2\\cdot10^{-7}"),
    ("x^2/4+y^2/3=1", "x^2/16+y^2/12=1"),
    ("x=42", "y=42"),
    ("5", "2x+1=5"),
    ("5", "2+2=5"),
    ("[0,1)", "[0,1]"),
    ("\\sqrt2", "1.41"),
    ("(-\\infty,2)\\cup(3,\\infty)", "x^2-5x+6>0"),
    ("x>3", "x>=3"),
    ("\\frac{x}{2^{99}}", "\\frac{x}{2^{98}}"),
    ("0", "\\frac1{2^{99}}"),
    ("3+4i", "3-4i"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
    ("x=1,y=2", "x=2,y=1"),
    ("10^{100}", "10^{100}+1"),
    ("12:00", "1:00"),
    ("\\infty", "-\\infty"),
    ("\\frac{2^{2005}+1}{3\\cdot2^{2006}}", "\\frac{1}{3\\cdot2^{2006}}"),
    ("2x", "3x"),
    ("\\text{even}", "\\text{odd}"),
    ("F_n = \\sum_{k=0}^{n-1} F_k F_{n-k-1}", "F_n = \\sum_{k=0}^{n-2} F_k F_{n-k-2}"),
    ("x^2+y^2=1", "1"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(judge: Judge, gold: str, answer: str) -> None:
    assert compare(judge, gold, answer) == {"gold": "ok", "answer": "ok", "equal": True}


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(judge: Judge, gold: str, answer: str) -> None:
    assert compare(judge, gold, answer)["equal"] is False


@pytest.mark.parametrize("answer", ["9^{9^{9}}", "(10^8)!", "2^{10^9}", "\\frac{5^{5^{5^{5}}} - 5}{16}"])
def test_numbers_too_large_to_work_out(judge: Judge, answer: str) -> None:
    assert compare(judge, "7", answer) == {"gold": "ok", "answer": "too large", "equal": False}
    assert compare(judge, answer, answer)["equal"] is True


@pytest.mark.parametrize(
    ("gold", "problem"),
    [("\\frac{", "not parsed"), ("", "not parsed"), ("3 +", "not parsed"), ("12:00", "no value")],
)
def test_golds_that_never_pay(judge: Judge, gold: str, problem: str) -> None:
    assert compare(judge, gold, gold) == {"gold": problem, "answer": None, "equal": False}


def test_a_gold_alone(judge: Judge) -> None:
    assert compare(judge, "x+1", None) == {"gold": "ok", "answer": None, "equal": False}


def test_an_answer_that_does_not_parse(judge: Judge) -> None:
    assert compare(judge, "1", "\\frac{1}") == {"gold": "ok", "answer": "not parsed", "equal": False}
