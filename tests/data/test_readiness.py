"""Readiness: the first thing that stands in the way is named, with its figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.readiness import KINDS, disagreements, gold_faults, planted_checks, planted_passes, readiness
from prefkit.data.readiness_verdict import FEWEST_QUESTIONS, READY_SHARE, verdict_of

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
RIGHT = "SELECT COUNT(*) FROM item"
NAMES = "SELECT name FROM item"
MIXED = {"shop/count": [RIGHT, "SELECT 1", "SELECT 2"], "farm/count": ["SELECT 1", RIGHT, RIGHT]}
SOLVED = {"shop/count": [RIGHT] * 8, "farm/count": [RIGHT] * 8, "shop/names": [NAMES] * 8, "farm/names": [NAMES] * 8}
WRONG = [f"SELECT {number}" for number in range(8)]
HOPELESS = {f"{name}/{question}": WRONG for name in ("shop", "farm") for question in ("count", "names", "fruit")}
ENOUGH = {"train": 900, "test": 40, "unseen": 10}
FAULT = {"shop/1": "UNVERIFIABLE: fails"}


@pytest.mark.parametrize(
    ("answers", "faults", "questions", "verdict", "advice"),
    [
        (MIXED, FAULT, ENOUGH, "fix the data", r"1 of 90 questions .*\(first: shop/1: UNVERIFIABLE: fails\)"),
        (MIXED, {}, {"train": 900, "test": 40}, "too few questions", r"40 held-out questions cannot show .* less than about 26 points"),
        (HOPELESS, {}, ENOUGH, "warm start first", r"\d % of groups of 8 answers are expected to have right and wrong ones"),
        (SOLVED, {}, ENOUGH, "solved already", r"100 % of its answers are right"),
        (MIXED, {}, ENOUGH, "ready", r"\d\d % of groups of 8 answers"),
        (MIXED, {"a": "b"}, {"train": 9}, "fix the data", r"mend these questions first"),
        (HOPELESS, {}, {}, "too few questions", r"0 held-out questions cannot show any gain"),
        ({}, {}, ENOUGH, "warm start first", r"no question was asked"),
    ],
)
def test_the_verdict_names_what_stands_in_the_way_first(
    answers: dict, faults: dict[str, str], questions: dict[str, int], verdict: str, advice: str, answered: Answered
) -> None:
    result = readiness(*answered(answers), faults, questions, 90, 8)
    assert result["verdict"] == verdict, result["advice"]
    assert re.search(advice, result["advice"]), result["advice"]


def measured(**changes: Any) -> Row:
    """The figures of a model that had no right answer, on a task without faults."""
    figures = {
        "gold_faults": 0, "golds_checked": 90, "first_gold_faults": [], "questions": ENOUGH, "repeated": 90, "repeated_differ": 0,
        "first_differences": [], "planted": 150, "planted_passed": 3, "trivial": {"`SELECT 0`": [5, 50]}, "too_long": 0,
        "prompts_measured": 90, "max_new_tokens": 64, "context": 512, "longest_prompt": 400, "answers": 384, "prompts": 48, "right": 0,
        "same_answer_share": 0.1, "signal_share": 0.01, "group": 8, "pass_at_1": 0.0, "all_right": 0.0, "all_wrong": 1.0,
        "kinds": {**dict.fromkeys(KINDS, 0), "no query": 300, "wrong result": 84},
    }  # fmt: skip
    return figures | changes


def share(mean: float, low: float, n: int = 40) -> Row:
    return {"mean": mean, "low": low, "high": min(1.0, 2 * mean - low), "n": n}


BLIND = {"needle_near": share(0.95, 0.8), "needle_far": share(0.55, 0.4)}
SIGHTED = {"needle_near": share(0.95, 0.8), "needle_far": share(0.9, 0.75)}


@pytest.mark.parametrize(
    ("changes", "verdict", "advice"),
    [
        ({"repeated_differ": 1, "first_differences": ["x"]}, "fix the data", r"1 of 90 verdicts were not the same the second time .*x"),
        ({"planted_passed": 16}, "fix the data", r"16 of 150 planted wrong answers passed"),
        ({"planted_passed": 15}, "warm start first", r""),
        ({"trivial": {"`SELECT 0`": [6, 50]}}, "fix the data", r"`SELECT 0` is right for 6 of 50 held-out questions"),
        ({"too_long": 5}, "choose a stronger model", r"5 of 90 prompts .* longer than the 512 tokens .* the longest takes 464"),
        ({"too_long": 4}, "warm start first", r""),
        # No right answer: what decides is whether it can tell golds apart, not that it had none right.
        ({"gold_match": share(0.9, 0.8)}, "warm start first", r"78 % of the answers fail by their form.*\(90 % of pairs\)"),
        ({"gold_match": share(0.6, 0.45)}, "choose a stronger model", r"in 60 % of 40 pairs, where guessing gives 50 %"),
        ({"gold_match": share(0.6, 0.45), "right": 1}, "warm start first", r""),
        (
            {"same_answer_share": 1.0},
            "choose a stronger model",
            r"none of 384 answers was right, and 100 % of .* the same text",
        ),
        ({"same_answer_share": 1.0, "prompts": 4}, "warm start first", r"was not measured"),
        ({"same_answer_share": 1.0, "gold_match": share(0.9, 0.8)}, "warm start first", r""),
        ({"same_answer_share": 1.0, "right": 200, "all_right": 0.6, "all_wrong": 0.4}, "solved already", r""),
        ({**BLIND, "gold_match": share(0.9, 0.8)}, "choose a stronger model", r"95 % of 40 tries .* 55 % of 40 where they stand first"),
        ({**SIGHTED, "gold_match": share(0.9, 0.8)}, "warm start first", r""),
        # The near end fails too: the far end then says nothing of distance. A model that answers well is not judged by a needle.
        ({**BLIND, "needle_near": share(0.6, 0.45), "gold_match": share(0.9, 0.8)}, "warm start first", r""),
        ({**BLIND, "right": 200, "signal_share": 0.6}, "ready", r"60 % of groups of 8"),
        ({"right": 99, "signal_share": READY_SHARE}, "ready", r""),
        ({"right": 99, "signal_share": READY_SHARE - 0.01}, "warm start first", r"29 % of groups"),
    ],
)
def test_each_rule_at_its_border(changes: Row, verdict: str, advice: str) -> None:
    found, said = verdict_of(measured(**changes))
    assert found == verdict, said
    assert re.search(advice, said, re.DOTALL), said


def test_the_border_of_too_few_questions() -> None:
    assert verdict_of(measured(questions={"test": FEWEST_QUESTIONS}))[0] != "too few questions"
    assert verdict_of(measured(questions={"test": FEWEST_QUESTIONS - 1}))[0] == "too few questions"


def test_the_figures_are_those_of_the_answers(answered: Answered) -> None:
    answers = {
        "shop/count": [RIGHT, RIGHT],
        "farm/count": [RIGHT, "SELECT 1"],
        "shop/names": ["SELECT nmae FROM item", "SELECT FROM WHERE"],
        "farm/names": ["hm", "…SELECT 3"],
    }
    result = readiness(*answered(answers), {}, ENOUGH, 90, 8)
    expected = {
        "pass_at_1": 3 / 8, "pass_at_k": 2 / 4, "k": 2, "all_wrong": 2 / 4, "mixed_share": 1 / 4, "all_right": 1 / 4,
        "no_query_share": 1 / 8, "golds_checked": 90, "gold_faults": 0, "prompts": 4, "answers": 8, "group": 8,
        "kinds": {"right": 3, "wrong result": 1, "does not run": 1, "does not parse": 1, "not finished": 1, "no query": 1, "not judged": 0},
        "by_question": {"shop/count": [2, 2], "farm/count": [2, 1], "shop/names": [2, 0], "farm/names": [2, 0]},
    }  # fmt: skip
    assert {name: result[name] for name in expected} == expected
    assert {k: figure["mean"] for k, figure in result["pass_at"].items()} == {"1": 3 / 8, "2": 2 / 4}
    assert result["pass_at"]["1"]["low"] < 3 / 8 < result["pass_at"]["1"]["high"]
    assert result["signal"]["low"] < result["signal_share"] == result["signal"]["mean"] < result["signal"]["high"]
    assert result["same_answer_share"] == 3 / 8
    assert result["longest_prompt"] == len("count of shop?")


def test_questions_with_fewer_answers_set_k_and_powers_of_two_are_given(answered: Answered) -> None:
    result = readiness(*answered({"shop/count": [RIGHT, *WRONG[:5]], "farm/count": WRONG[:7]}), {}, ENOUGH, 90, 8)
    assert result["k"] == 6 and list(result["pass_at"]) == ["1", "2", "4", "6"]
    assert result["pass_at"]["1"]["mean"] == pytest.approx(1 / 12) and result["pass_at_k"] == pytest.approx(1 / 2)


def test_nothing_was_asked() -> None:
    result = readiness([], [], {}, ENOUGH, 0, 8)
    assert (result["pass_at_1"], result["k"], result["longest_prompt"], result["all_wrong"], result["pass_at"]) == (0, 0, 0, 0, {})
    assert result["signal"]["mean"] is None


def test_golds_that_do_not_pass_are_named_with_the_reason(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> None:
    assert gold_faults(task, examples, scheduler) == {}
    bad = [
        examples[0],
        replace(examples[1], id="typo", gold="SELECT nmae FROM item"),
        replace(examples[2], id="empty", gold="SELECT name FROM item WHERE 0"),
        replace(examples[3], id="clock", gold="SELECT date('now')"),
        replace(examples[4], id="constant", gold="SELECT 4"),
        # One accepted gold is enough to judge by, yet the other one is wrong.
        replace(examples[5], id="second", gold=(examples[5].golds[0], "SELECT nmae FROM item")),
    ]
    faults = gold_faults(task, bad, scheduler)
    assert {name: fault.split(":")[0] for name, fault in faults.items()} == {
        "typo": "UNVERIFIABLE", "empty": "UNVERIFIABLE", "clock": "UNVERIFIABLE", "second": "CRASH",
        "constant": "it reads no table, so the data cannot matter to it",
    }  # fmt: skip
    assert "no such column: nmae" in faults["typo"]


def test_planted_wrong_answers_do_not_pass(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> None:
    assert planted_passes(task, examples, scheduler) == (0, 3 * len(examples))
    # A question whose right answer is 0 lets the constant pass, and twins let each other's golds pass: both are seen.
    zero = replace(examples[0], id="zero", gold="SELECT COUNT(*) FROM item WHERE price < 0")
    twin = replace(examples[0], id="twin", gold="SELECT i.name FROM item i")
    assert planted_passes(task, [zero], scheduler) == (1, 2)
    assert planted_passes(task, [examples[0], twin], scheduler) == (2, 6)


def test_what_is_judged_differently_the_second_time_is_told(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> None:
    from prefkit.verify.scheduler import Scheduler

    checks = planted_checks(task, examples)
    with Scheduler(workers=1) as second:
        assert disagreements(checks, scheduler, second) == []

        class Changed:
            def verify(self, checks: list[Any]) -> list[Any]:
                first, *rest = second.verify(checks)
                return [replace(first, reason="other rows"), *rest]

        found = disagreements(checks, scheduler, Changed())  # type: ignore[arg-type]
    assert found == ["WRONG: no SQL in the answer, then WRONG: other rows"]
