"""Readiness: the first thing that stands in the way is named, with its figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.readiness import FEWEST_QUESTIONS, READY_SHARE, gold_faults, planted_passes, readiness

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
Answered = Callable[..., tuple[list[Row], list[Row]]]
RIGHT = "SELECT COUNT(*) FROM item"
MIXED = {"shop/count": [RIGHT, "SELECT 1"], "farm/count": ["SELECT 1", RIGHT]}
SOLVED = {"shop/count": [RIGHT, RIGHT], "farm/count": [RIGHT, RIGHT]}
HOPELESS = {"shop/count": ["SELECT 1", "no"], "farm/count": ["no", "no"]}
ENOUGH = {"train": 900, "test": 40, "unseen": 10}


@pytest.mark.parametrize(
    ("answers", "faults", "questions", "verdict", "advice"),
    [
        (MIXED, ["shop/1: UNVERIFIABLE: fails"], ENOUGH, "fix the data", r"1 of 90 golds .*\(first: shop/1: UNVERIFIABLE: fails\)"),
        (MIXED, [], {"train": 900, "test": 40}, "too few questions", r"40 held-out questions cannot show .* less than about 15 points"),
        (HOPELESS, [], ENOUGH, "warm start first", r"only 0% of prompts have both right and wrong answers"),
        (SOLVED, [], ENOUGH, "warm start first", r"only 0% of prompts"),
        (MIXED, [], ENOUGH, "ready", r"100% of prompts have both right and wrong answers"),
        (MIXED, ["a: b"], {"train": 9}, "fix the data", r"mend these questions first"),
        (HOPELESS, [], {}, "too few questions", r"0 held-out questions"),
    ],
)
def test_the_verdict_names_what_stands_in_the_way_first(
    answers: dict, faults: list[str], questions: dict[str, int], verdict: str, advice: str, answered: Answered
) -> None:
    import re

    result = readiness(*answered(answers), faults, questions, golds_checked=90)
    assert result["verdict"] == verdict
    assert re.search(advice, result["advice"]), result["advice"]


def test_the_border_between_ready_and_not(answered: Answered) -> None:
    names = ["shop/count", "farm/count", "shop/names", "farm/names", "shop/fruit"]
    for mixed in range(len(names) + 1):
        answers = {name: ["SELECT 1", RIGHT if index < mixed and "count" in name else "SELECT 2"] for index, name in enumerate(names)}
        result = readiness(*answered(answers), [], {"test": FEWEST_QUESTIONS}, 0)
        assert result["mixed_share"] == min(mixed, 2) / 5
        assert result["verdict"] == ("ready" if result["mixed_share"] >= READY_SHARE else "warm start first")


def test_the_figures_are_those_of_the_answers(answered: Answered) -> None:
    answers = {
        "shop/count": [RIGHT, RIGHT],
        "farm/count": [RIGHT, "SELECT 1"],
        "shop/names": ["SELECT 1", "SELECT 2"],
        "farm/names": ["hm", "SELECT 3"],
    }
    result = readiness(*answered(answers), [], ENOUGH, 90)
    expected = {
        "pass_at_1": 3 / 8, "pass_at_k": 2 / 4, "k": 2, "all_wrong": 2 / 4, "mixed_share": 1 / 4, "all_right": 1 / 4,
        "no_query_share": 1 / 8, "golds_checked": 90, "gold_faults": 0, "prompts": 4, "answers": 8,
    }  # fmt: skip
    assert {name: result[name] for name in expected} == expected
    assert result["longest_prompt"] == len("count of shop?")


def test_nothing_was_asked() -> None:
    result = readiness([], [], [], ENOUGH, 0)
    assert (result["pass_at_1"], result["k"], result["longest_prompt"]) == (0, 0, 0)
    assert result["verdict"] == "warm start first"


def test_golds_that_do_not_pass_are_named_with_the_reason(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> None:
    assert gold_faults(task, examples, scheduler) == []
    bad = [
        examples[0],
        replace(examples[1], id="typo", gold="SELECT nmae FROM item"),
        replace(examples[2], id="empty", gold="SELECT name FROM item WHERE 0"),
        replace(examples[3], id="clock", gold="SELECT date('now')"),
    ]
    faults = gold_faults(task, bad, scheduler)
    assert [fault.split(": ")[:2] for fault in faults] == [["typo", "UNVERIFIABLE"], ["empty", "UNVERIFIABLE"], ["clock", "UNVERIFIABLE"]]
    assert "no such column: nmae" in faults[0]


def test_planted_wrong_answers_do_not_pass(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> None:
    assert planted_passes(task, examples, scheduler) == (0, 3 * len(examples))
    # A question whose right answer is 0 lets the constant pass, and twins let each other's golds pass: both are seen.
    zero = replace(examples[0], id="zero", gold="SELECT COUNT(*) FROM item WHERE price < 0")
    twin = replace(examples[0], id="twin", gold="SELECT i.name FROM item i")
    assert planted_passes(task, [zero], scheduler) == (1, 2)
    assert planted_passes(task, [examples[0], twin], scheduler) == (2, 6)
