"""Repair rates: by the failure a question began with, beside as many fresh answers, with intervals, and nothing counted twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.evaluate.repairs import repairs
from prefkit.statistics import paired_interval, wilson

Row = dict[str, Any]
Scores = list[float | None]


def trajectory(reason: str, tries: list[Scores], fresh: Scores, status: str = "WRONG") -> Row:
    first = {"status": status, "reason": reason, "tries": []}
    turns = [{"status": "", "reason": "", "tries": [{"score": score} for score in scores]} for scores in tries]
    return {"turns": [first, *turns], "fresh": [{"score": score} for score in fresh]}


ROWS = [
    trajectory("wrong rows", [[0, 1]], [0, 0, 0, 0]),
    trajectory("wrong rows (data instance 2)", [[0, 0], [0, 1]], [1, 0, 0, 0]),
    trajectory("wrong rows", [[0, 0], [0, 0]], [0, 1, 1, 0]),
    trajectory("no such column: nam", [[1, 1]], [0, 0, 0, 0], "CRASH"),
]


def test_rates_by_kind_with_both_sides_and_the_paired_difference() -> None:
    found = repairs(ROWS)
    rows = {row["kind"]: row for row in found["rows"]}
    assert list(rows) == ["all", "wrong rows", "no such column"]
    assert {kind: row["questions"] for kind, row in rows.items()} == {"all": 4, "wrong rows": 3, "no such column": 1}
    assert rows["all"]["repaired"] == wilson(3, 4).to_dict() and rows["all"]["fresh"] == wilson(2, 4).to_dict()
    assert rows["wrong rows"]["repaired"] == wilson(2, 3).to_dict()
    paired = paired_interval([0, 1, 1, 0], [1, 1, 0, 1])
    assert {**paired.to_dict(), "p": rows["all"]["gain"]["p"]} == rows["all"]["gain"]
    assert rows["all"]["gain"]["p"] > 0.5
    assert (found["turns"], found["tries"], found["not_judged"]) == (2, 4, 0)


def test_what_was_never_judged_is_left_out_and_counted() -> None:
    lost = [trajectory("wrong rows", [[None, None]], [1, 1]), trajectory("wrong rows", [[1, 0]], [None, None])]
    found = repairs([*ROWS, *lost, trajectory("wrong rows", [[None, 0], [1, None]], [None, 0])])
    assert found["not_judged"] == 2
    assert found["rows"][0]["questions"] == 5 and found["rows"][0]["repaired"]["mean"] == pytest.approx(4 / 5)


def test_no_corrections_have_no_rates() -> None:
    assert repairs([]) == {"rows": [], "not_judged": 0, "turns": 0, "tries": 0}
    assert repairs([trajectory("wrong rows", [], [1])])["rows"] == [], "a failure that got no turn"


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["wrong rows", "no rows", "x"]), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_the_kinds_add_up_to_all(cases: list[tuple[str, bool, bool]]) -> None:
    found = repairs([trajectory(reason, [[float(repaired)]], [float(fresh)]) for reason, repaired, fresh in cases])
    every, *kinds = found["rows"]
    assert sum(row["questions"] for row in kinds) == every["questions"] == len(cases)
    for side in ("repaired", "fresh"):
        assert sum(row[side]["mean"] * row["questions"] for row in kinds) == pytest.approx(every[side]["mean"] * len(cases))
    gain = every["gain"]
    assert gain["low"] <= gain["mean"] <= gain["high"]
    assert gain["mean"] == pytest.approx(every["repaired"]["mean"] - every["fresh"]["mean"])
