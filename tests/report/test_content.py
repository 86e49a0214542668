"""What the report makes of the stages' figures, the metrics and odd text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.report.content import content
from prefkit.report.curves import MOST_POINTS, curves, thin
from prefkit.report.examples import examples
from prefkit.report.funnel import choices, funnel, rounds
from prefkit.report.source import read, stage_order, stage_words
from prefkit.report.text import duration, number, shorten, visible
from prefkit.runfolder import RunFolder

Build = Callable[..., RunFolder]


def test_the_rounds_go_from_questions_to_rows(demo_run: RunFolder) -> None:
    first, second = rounds(read(demo_run))
    assert [(step.label, step.words) for step in first.steps] == [
        ("Questions asked", "600"),
        ("Questions with at least one right answer", "54 (9.0\u00a0%)"),
        ("Questions with right and wrong answers", "51 (8.5\u00a0%)"),
        ("Training rows kept: 51 own, 537 reference", "588"),
        ("Rows with a wrong answer beside the right one", "402 (68.4\u00a0%)"),
    ]
    assert second.steps[3].label == "Training rows kept: 364 own, 12 corrected"


def test_figures_that_nobody_foresaw_are_shown_and_missing_ones_are_not(build_run: Build) -> None:
    run = build_run()
    figures = {"rows": 3, "dropped_too_strange": 2, "kept_share": 0.5, "note": "text", "ok": True, "nested": {"a": 1}}
    run.finish("pairs-2", "0" * 64, [], figures, 1.0)
    counts = {count.label: count.value for count in next(stage for stage in funnel(read(run)) if stage.stage == "pairs-2").counts}
    assert counts == {"Training rows kept": "3", "Dropped too strange": "2", "Kept share": "50.0\u00a0%"}
    assert rounds(read(run))[2].steps[0].words == "3"


def test_answers_that_belong_to_no_round_are_counted_but_make_none(build_run: Build) -> None:
    asked = {"prompts": 40, "answers": 160, "prompts_with_right": 20, "mixed": 15}
    run = build_run(stages=False)
    for stage in ("rollouts-calibrate", "rollouts-0"):
        run.finish(stage, "0" * 64, [], asked, 1.0)
    source = read(run)
    assert [turn.title for turn in rounds(source)] == ["Round 0"]
    assert [part.title for part in funnel(source)] == ["Rollouts, round 0", "Choice of questions for calibration"]


def test_stages_without_figures_and_unfinished_ones_are_left_out(build_run: Build) -> None:
    run = build_run(stages=False)
    run.begin("rollouts-0", "0" * 64)
    run.finish("pairs-0", "0" * 64, [], {}, 1.0)
    source = read(run)
    assert (funnel(source), rounds(source), choices(source)) == ([], [], [])
    assert list(source.stages) == ["pairs-0"]


def test_choices_are_shown_in_words(demo_run: RunFolder) -> None:
    warm, final = choices(read(demo_run))
    assert [(c.name, c.greedy, c.samples, c.chosen) for c in warm.candidates] == [
        ("Warm start, round 0", "42.0\u00a0%", "–", False),
        ("Warm start, round 1", "47.0\u00a0%", "–", True),
    ]
    assert (final.questions, final.metric) == (60, "the mean of first and sampled answers")
    assert [(c.name, c.greedy, c.samples, c.value, c.chosen) for c in final.candidates] == [
        ("Step 6", "47.5\u00a0%", "40.0\u00a0%", "43.8\u00a0%", False),
        ("Step 12", "46.5\u00a0%", "44.0\u00a0%", "45.3\u00a0%", True),
    ]


def test_stages_stand_in_the_order_of_the_data() -> None:
    expected = [
        "readiness",
        *(f"{stage}-0" for stage in ("rollouts", "pairs", "warm_start")),
        *(f"{stage}-1" for stage in ("rollouts", "corrections", "pairs", "warm_start")),
        "rollouts-10",
        *("select-warm", "rollouts-calibrate", "calibrate", "select-final", "evaluate", "report", "a stage of one's own"),
    ]
    assert sorted(reversed(expected), key=stage_order) == expected
    assert sorted(sorted(expected), key=stage_order) == expected
    assert (stage_words("warm_start-1"), stage_words("something-else")) == ("Warm start, round 1", "something-else")


def test_curves_hold_finite_values_only_and_name_their_stage(demo_run: RunFolder) -> None:
    found = {(curve.stage, curve.title): curve for curve in curves(read(demo_run))}
    reward = found["Calibration", "Mean reward"]
    assert [step for step, _ in reward.lines[0][1]] == list(range(1, 13))
    validation = found["Warm start, round 0", "Validation accuracy"]
    assert [label for label, _ in validation.lines] == ["greedy", "samples"]
    loss = found["Warm start, round 0", "Training loss"]
    assert (len(loss.lines[0][1]), loss.averaged) == (111, 4)
    assert "Choice of the final model" not in {stage for stage, _ in found}
    for curve in found.values():
        assert all(math.isfinite(value) for _, points in curve.lines for _, value in points)


def test_a_step_that_was_logged_again_counts_once(build_run: Build) -> None:
    run = build_run(metrics=False)
    for step, loss in ((2, 9.0), (1, 3.0), (2, 2.0)):
        run.log_metrics("warm_start-0", step, loss=loss)
    assert curves(read(run))[0].lines == [("loss", [(1.0, 3.0), (2.0, 2.0)])]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=400))
def test_thinning_keeps_the_mean_of_what_it_joins(values: list[float]) -> None:
    points = [(float(step), value) for step, value in enumerate(values)]
    thinned = thin(points)
    assert len(thinned) <= MOST_POINTS
    size = math.ceil(len(values) / MOST_POINTS)
    assert thinned[0][1] == pytest.approx(sum(values[:size]) / len(values[:size]))
    assert (thinned == points) == (len(values) <= MOST_POINTS)


def test_fewer_questions_than_examples_give_all_of_them_once(build_run: Build, answers: list[dict[str, Any]]) -> None:
    few = [row for row in answers if row["example_id"] in ("test-000", "test-001", "unseen-003")]
    found, drawn_from = examples(read(build_run(answers=few)))
    assert drawn_from == len(found) == 3
    assert {example.database for example in found} == {"shop", "hr", "library"}


def test_an_answer_without_sql_is_shown_as_it_is(build_run: Build, answers: list[dict[str, Any]]) -> None:
    for row in answers:
        row.update(sql=None, completion="I am not sure. " * 200, status="WRONG", score=0.0, reason="no SQL in the answer")
    found, _ = examples(read(build_run(answers=answers)))
    assert not found[0].after.is_sql
    assert found[0].after.verdict == "no SQL found"
    assert found[0].after.text.endswith("more characters)")
    assert len(found[0].after.text) < 1000


def test_versions_that_changed_on_the_way_are_both_named(build_run: Build) -> None:
    run = build_run()
    manifest = run.manifest
    manifest["stages"]["evaluate"]["versions"] = {"python": "3.99.0", "trl": "not installed"}
    run.write_json("manifest.json", manifest)
    versions = dict(content(read(run)).versions)
    assert versions["python"].endswith(" then 3.99.0")
    assert "then not installed" in versions["trl"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("a\r\nb", "a\nb"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("nul\x00 esc\x1b bell\x07", "nul⟨U+0000⟩ esc⟨U+001B⟩ bell⟨U+0007⟩"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("lone \ud800", "lone ⟨U+D800⟩"),
        ("Größe 客户 👩‍💻", "Größe 客户 👩‍💻"),
    ],
)
def test_hidden_characters_are_written_out(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text())
def test_visible_text_can_be_written_to_any_file(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert visible(shown) == shown


def test_figures_are_written_as_people_write_them() -> None:
    assert [duration(s) for s in (None, 0.0, 9.94, 9.96, 59.6, 61, 3599.6, 12_000)] == [
        "–", "0.0 s", "9.9 s", "10 s", "1 min 00 s", "1 min 01 s", "1 h 00 min", "3 h 20 min",
    ]  # fmt: skip
    assert [number(n) for n in (None, 0, 1234567, -3, 0.0131, 2.614, 1234.5, float("nan"), 588.0)] == [
        "–", "0", "1,234,567", "\u22123", "0.0131", "2.61", "1,234", "–", "588",
    ]  # fmt: skip
    assert shorten("a" * 12, 10) == "a" * 10 + " … (2 more characters)"


# What the figures rest on


@pytest.mark.parametrize(
    ("trust", "words", "tile"),
    [
        ({}, "Every answer was checked by execution", "answers checked by execution"),
        ({"executed": 100}, "Every answer was checked by execution", "answers checked by execution"),
        ({"executed": 90, "in_process": 10}, "10 were checked by tests in the answer's own process", "answers checked by execution"),
        (
            {"executed": 90, "model": 10},
            "90 of 100 answers were checked by execution. The other 10 were rated by a model",
            "answers judged",
        ),
        ({"model": 100}, "No answer was executed: a model (the judge) rated each of them.", "answers judged"),
    ],
)
def test_the_report_says_what_its_figures_rest_on(build_run: Build, trust: dict[str, int], words: str, tile: str) -> None:
    run = build_run()
    run.write_json("evaluation.json", run.read_json("evaluation.json") | {"trust": trust})
    said = content(read(run))
    assert words in dict(said.notes)["What counts as right"]
    assert tile in [label for _, label in said.tiles]
