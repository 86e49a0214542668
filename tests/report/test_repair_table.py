"""The table of repairs: what feedback was worth, beside its two controls, on the page and in the Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from prefkit.data import columns
from prefkit.report.content import content
from prefkit.report.html_report import render_html, write
from prefkit.report.repairs import repair_tables
from prefkit.report.source import read
from prefkit.runfolder import RunFolder

Build = Callable[..., RunFolder]
HOSTILE = "no such column: <script>alert(1)</script> | `x`"


def row(reason: str, tries: list[list[float]], fresh: list[float]) -> dict[str, Any]:
    def receipts(scores: list[float]) -> list[dict[str, Any]]:
        return [{"rollout": "r", "verdict": "v", "score": score} for score in scores]

    first = {"content": "SELECT 1", "status": "WRONG", "reason": reason, "tries": [], "train": False}
    turns = [first, *({"content": "SELECT 2", "tries": receipts(scores), "train": False} for scores in tries)]
    return {"id": "t", "turns": turns, "fresh": receipts(fresh), "end": "open"}


ROWS = [row("wrong rows", [[0, 0], [0, 1]], [0, 0, 0, 0])] * 3 + [row(HOSTILE, [[0, 0], [0, 0]], [0, 1, 0, 0])] * 5


@pytest.fixture
def run(build_run: Build) -> RunFolder:
    run = build_run()
    run.write_rows("trajectories/round-1.parquet", ROWS, columns.trajectories())
    return run


def test_the_table_has_a_row_for_all_and_one_for_each_kind(run: RunFolder) -> None:
    (table,) = repair_tables(read(run))
    assert table.title == "Corrections, round 1"
    assert "4 answers in 2 turns at most" in table.about and "4 fresh answers to the bare question" in table.about
    shown = [(row.kind, row.questions, row.repaired.split(" (")[0], row.fresh.split(" (")[0]) for row in table.rows]
    assert shown == [
        ("All questions", 8, "37.5\u00a0%", "62.5\u00a0%"),
        ("no such column", 5, "0.0\u00a0%", "100.0\u00a0%"),
        ("wrong rows", 3, "100.0\u00a0%", "0.0\u00a0%"),
    ]
    assert table.rows[0].gain == "\u221225.0 (\u221293.3 to +53.3): nothing shown: the interval contains 0"


def test_the_first_attempts_are_those_that_the_evaluation_measured(run: RunFolder) -> None:
    (table,) = repair_tables(read(run))
    scores = run.read_json("evaluation.json")["scores"]["test"]
    for policy, words in (("base", "base model"), ("references", "after the references"), ("calibrated", "final model")):
        assert f"{words} {100 * scores[policy]['samples']['mean']:.1f}\u00a0% (" in table.first
    assert table.first.startswith("First attempts, sampled, on the test questions: ")


def test_page_and_markdown_show_it_and_nothing_in_it_is_markup(run: RunFolder) -> None:
    write(run)
    page, text = run.file("report.html").read_text("utf-8"), run.file("report.md").read_text("utf-8")
    plain = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    for said in ("Corrections, round 1", "Solved afresh", "Questions with a wrong answer that got another turn"):
        assert said in plain
    assert "| All questions | 8 | 37.5" in text
    assert "<script>alert" not in page and "alert(1)" not in text, "a kind is one of a few words, never the answer's own text"


def test_a_run_without_corrections_or_with_those_of_an_older_form_has_no_table(build_run: Build, run: RunFolder) -> None:
    run.write_rows("trajectories/round-1.parquet", [{"id": "t", "turns": [{"content": "x"}], "end": "open"}])
    assert read(run).trajectories == {1: []} and repair_tables(read(run)) == []
    run.file("trajectories/round-1.parquet").unlink()
    assert read(run).trajectories == {} and content(read(run)).repairs == []
    assert "Solved afresh" not in render_html(content(read(run)))
