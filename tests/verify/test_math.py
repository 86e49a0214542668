"""The math verifier in the real sandbox, on what users of math-verify stumbled over."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_judge import SOURCE, Judge, open_pool
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.job import Answer, CodeResult
from prefkit.verify.math import MathVerifier
from prefkit.verify.verifier import Once, Unverifiable

pytestmark = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


EQUAL = [
    (r"$\frac{1}{3}$", r"The answer is \boxed{\frac{1}{3}}"),
    ("$0 < x < 12.5$", "$(0, 12.5)$"),
    ("73", "✅ Final Answer: **73**"),
    ("2.5", r"$2\frac{1}{2}$"),
    ("5/4", "1 1/4"),
    ("8/3", "2 2/3"),
    ("1331 and 1728", "1728 and 1331"),
    (r"$28\%$", "28 percent"),
    ("0.28", "28%"),
    ("5 cm", "5"),
    ("5 cm", "5 centimeters"),
    (r"\$5", "$5"),
    ("1,000", "1000"),
    ("12", r"\textbf{(B)} 12"),
    ("B", "The answer is (B)."),
    ("even", r"It is \boxed{\text{even}}"),
    ("$x=5$", "x = 5"),
    ("5", "$x = 5$"),
    ("5", "$2+3=5$"),
    ("1,2", r"\boxed{1} and \boxed{2}"),
    (r"$\sqrt{2}$", "sqrt(2)"),
    (r"$\pi$", "π"),
    (r"$1-\frac{1}{\mathrm{e}}$", "$1-e^{-1}$"),
    (r"$\frac{1}{3}$", "0.333333"),
    (r"$\{1,2\}$", r"\boxed{\{2, 1\}}"),
    (r"$(x+1)^2$", "$x^2+2x+1$"),
    (r"$3x-y+13=0$", "$y=3x+13$"),
    (r"$\frac{1}{2^{99}}$", "$2^{-99}$"),
    (r"$\begin{pmatrix}1\\2\end{pmatrix}$", r"$\begin{pmatrix}1\\2\end{pmatrix}$"),
    ("$3+4i$", "$4i+3$"),
    ("$2^{10^{9}}$", "$2^{10^{9}}$"),
]

DIFFERENT = [
    ("2", "2 2/3"),
    ("10", "4 10/3"),
    ("1331 and 1728", "1728"),
    ("5 cm", "5 m"),
    ("0.28", "28"),
    ("B", "C"),
    ("even", r"\boxed{odd}"),
    ("3*x-1*y+13=0", "3x + 4y + 14=0"),
    ("$x^2+1=0$", "$x^2+2=0$"),
    (r"$\frac{1}{2004!}$", r"$\frac{1}{2006!}$"),
    (r"$\frac{1}{2^{99}}$", r"$\frac{1}{2^{98}}$"),
    ("0.0000001", "0.0000002"),
    (r"$\frac{x}{2^{99}}$", r"$\frac{x}{2^{98}}$"),
    ("0", r"$\frac{1}{2^{99}}$"),
    ("$n=2, 3, 4$", "$n=1, 2, 3$"),
    ("$D = (0, 1)$", "$D = (0, 1.5)$"),
    (r"$1-\frac{1}{\mathrm{e}}$", r"$1+\frac1e$"),
    (r"$\pm 2021$", "$2021$"),
    ("$(1,2)$", "$(2,1)$"),
    ("$(1,2)$", r"$\{1,2\}$"),
    ("$[0,1)$", "$[0,1]$"),
    ("5", "$2x+1=5$"),
    (r"$(-\infty,2)\cup(3,\infty)$", "$x^2-5x+6>0$"),
    ("$x=42$", "$y=42$"),
    ("$10^{100}$", "$10^{100}+1$"),
    (r"$\frac{1}{3}$", "0.33"),
    ("7", r"<think>\boxed{7}</think> I do not know"),
    ("7", "There are 3 dogs and 4 cats"),
    ("7", ""),
    ("7", "__import__('os').system('id')"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \frac{2\pi}{3})"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(judge: Judge, gold: str, answer: str) -> None:
    assert judge("math", gold=gold, answer=answer, timeout=5).status == "PASS"


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(judge: Judge, gold: str, answer: str) -> None:
    assert judge("math", gold=gold, answer=answer, timeout=5).status == "WRONG"


@pytest.mark.parametrize(
    "gold",
    ["(see the figure)", r"\frac{", "12:00", r"1, 2, \ldots, n", "$1 + $", "$0/0$", "Find the area of the triangle", "__import__('os')"],
)
@pytest.mark.parametrize("answer", [None, r"\boxed{42}"])
def test_a_gold_that_is_no_mathematics_never_pays(judge: Judge, gold: str, answer: str | None) -> None:
    assert judge("math", gold=gold, answer=answer or gold, timeout=5).status == "UNVERIFIABLE"


@pytest.mark.parametrize("answer", [r"\boxed{9^{9^{9}}}", "9**9**9", r"\boxed{(10^8)!}", r"\boxed{\frac{5^{5^{5^{5}}} - 5}{16}}"])
def test_giant_numbers_take_no_time(judge: Judge, answer: str) -> None:
    assert judge("math", gold="7", answer=answer, timeout=5).status == "TIMEOUT"


def test_any_of_several_golds(judge: Judge) -> None:
    assert judge("math", gold=["1", "2"], answer="2", timeout=5).status == "PASS"
    assert judge("math", gold=["(see the figure)", "2"], answer="2", timeout=5).status == "PASS"
    assert judge("math", gold=["(see the figure)", "2"], answer="3", timeout=5).status == "WRONG"


def test_feedback_holds_nothing_of_the_gold(judge: Judge) -> None:
    assert judge("math", gold="424242", answer="The answer is 7.").feedback == "The answer 7 is wrong."


def test_shared_cases(judge: Judge, shared: Path) -> None:
    lines = [json.loads(line) for line in (shared / "cases.jsonl").read_text("utf-8").splitlines()]
    lines = [line for line in lines if line.get("verifier") == "math"]
    assert len(lines) >= 3
    for line in lines:
        assert judge("math", gold=line["gold"], answer=line["answer"], timeout=5).status in line["want"], line


@pytest.mark.parametrize("line", [{}, {"gold": ""}, {"gold": 1}, {"gold": []}, {"gold": "1", "timeout": -1}])
def test_broken_lines_are_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match='"'):
        MathVerifier().read({"answer": "", **line}, "1", SOURCE)


VALUES = st.none() | st.integers() | st.text(max_size=3) | st.dictionaries(
    st.sampled_from(["gold", "answer", "equal"]), st.sampled_from(["ok", "not parsed", "too large", None, 1, "true"]), max_size=3
)  # fmt: skip


@given(VALUES)
@settings(deadline=None)
def test_whatever_comes_back_gives_a_judgement_and_never_a_pass(value: Any) -> None:
    verifier = MathVerifier()
    steps = verifier.judge(verifier.read({"gold": "1", "answer": "1"}, "1", SOURCE))
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Answer([CodeResult("ok", value=value)]))
        steps.send("")  # where a number is too large, the gold is tried alone, and nothing is wrong with it
    assert end.value.value.status in ("WRONG", "TIMEOUT", "UNVERIFIABLE")


@pytest.mark.parametrize(("alone", "wanted"), [("", "TIMEOUT"), ("gold takes too long", "UNVERIFIABLE")])
def test_a_run_that_fails_is_the_golds_fault_where_the_gold_fails_alone(alone: str, wanted: str) -> None:
    verifier = MathVerifier()
    steps = verifier.judge(verifier.read({"gold": "1", "answer": "1"}, "1", SOURCE))
    next(steps)
    assert isinstance(steps.send(Answer([CodeResult("timeout", "time limit: processor time")])), Once)
    with pytest.raises(StopIteration) as end:
        steps.send(alone)
    assert end.value.value.status == wanted


@given(st.text(max_size=100))
@settings(max_examples=100, deadline=None)
def test_any_answer_and_any_gold_is_read(text: str) -> None:
    verifier = MathVerifier()
    for line in ({"gold": "1", "answer": text}, {"gold": text, "answer": "1"}):
        try:
            check = verifier.read(line, "1", SOURCE)
        except (ValueError, Unverifiable):
            continue
        json.dumps(verifier.key(check))
        step = next(verifier.judge(check), None)
        assert step is None or isinstance(step, Once) or step.line()
