"""Executed verdicts and a model's opinions: told apart, counted, and put together only where someone asked for it."""

from __future__ import annotations

import pytest

from prefkit.errors import DataError
from prefkit.verify.trust import counts, require_one_kind, together


@pytest.mark.parametrize(
    ("trusts", "whole"),
    [
        ([], None),
        (["executed", "executed"], "executed"),
        (["executed", "in_process"], "in_process"),
        (["model"], "model"),
        (["model", "in_process"], "mixed"),
    ],
)
def test_what_rests_on_several_verdicts_has_the_least_of_their_trusts(trusts: list[str], whole: str | None) -> None:
    assert together(iter(trusts)) == whole


def test_scored_verdicts_are_counted_by_their_trust() -> None:
    rows = [
        {"score": 1.0, "trust": "executed"},
        {"score": 0.0, "trust": "model"},
        {"score": None, "trust": "model"},
        {"score": float("nan"), "trust": "in_process"},  # as Parquet readers give a missing score
        {"score": 0.0},  # rows from before there was a judge
    ]
    assert counts(rows) == {"executed": 2, "model": 1}


def test_mixing_is_refused_unless_the_recipe_says_so() -> None:
    for fine in (["executed", "in_process"], ["model", "model"], []):
        require_one_kind(fine, False, "a pair")
    require_one_kind(["model", "executed"], True, "a pair")
    for trusts in (["model", "executed"], ["in_process", "model"]):
        with pytest.raises(DataError, match=r"a pair: .*judge\.mix"):
            require_one_kind(iter(trusts), False, "a pair")
