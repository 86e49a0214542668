"""Evaluation and ledger on answers whose truth is written out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scipy import stats

from prefkit.errors import DataError
from prefkit.evaluate.failures import failure_counts, failure_kind
from prefkit.evaluate.suites import evaluation, ledger
from prefkit.evaluate.words import effect, interval_words, percent, points

COSTS = {
    "references": {"seconds": 100.0, "tokens": 5000, "verifier_calls": 400},
    "own_pairs": {"seconds": 50.0, "tokens": 1000, "verifier_calls": 200},
    "calibrated": {"seconds": 25.0, "tokens": 500, "verifier_calls": 64},
}


def rows(
    policy: str, greedy: str, samples: list[str] | None = None, split: str = "test", level: str = "12", database: str = "ab"
) -> list[dict[str, Any]]:
    """Answers of one policy: one character a question, "1" right, "0" wrong, "?" not scored; levels and databases take turns."""
    found = []
    for index, mark in enumerate(greedy):
        marks = [("greedy", 0, mark)] + [("sample", k, s) for k, s in enumerate(samples[index] if samples else "")]
        for kind, k, right in marks:
            found.append(
                {
                    "policy": policy, "split": split, "example_id": f"q{index:03d}", "database": database[index % len(database)],
                    "level": int(level[index % len(level)]), "question": "?", "gold": "SELECT 1", "kind": kind, "k": k,
                    "completion": "SELECT 2", "sql": "SELECT 2",
                    "status": {"1": "PASS", "0": "WRONG", "?": "INFRA"}[right],
                    "score": None if right == "?" else float(right), "reason": "same rows" if right == "1" else "wrong rows",
                }
            )  # fmt: skip
    return found


def test_scores_are_what_counting_gives() -> None:
    answers = rows("base", "1100", ["11", "10", "00", "00"]) + rows("references", "1110", ["11", "11", "10", "00"])
    result = evaluation(answers, {"test": 9}, k=2, temperature=0.8)
    assert result["splits"] == {"test": {"questions": 4, "of": 9}}
    assert (result["k"], result["temperature"], result["policies"]) == (2, 0.8, ["base", "references"])
    base, after = result["scores"]["test"]["base"], result["scores"]["test"]["references"]
    assert [base[m]["mean"] for m in ("greedy", "samples", "pass_at_k")] == [0.5, 3 / 8, 0.5]
    assert [after[m]["mean"] for m in ("greedy", "samples", "pass_at_k")] == [0.75, 5 / 8, 0.75]
    assert {m: base[m]["n"] for m in ("greedy", "samples", "pass_at_k")} == {"greedy": 4, "samples": 4, "pass_at_k": 4}
    expected = stats.binomtest(3, 4).proportion_ci(0.95, method="wilson")
    assert (after["greedy"]["low"], after["greedy"]["high"]) == pytest.approx((expected.low, expected.high))


def test_levels_and_databases_are_parts_of_the_whole() -> None:
    result = evaluation(rows("base", "110010", ["10"] * 6, level="123", database="ab"), {"test": 6}, 2, 1.0)
    base = result["scores"]["test"]["base"]
    assert {level: part["greedy"]["mean"] for level, part in base["by_level"].items()} == {"1": 0.5, "2": 1.0, "3": 0.0}
    assert {name: part["greedy"]["mean"] for name, part in base["by_database"].items()} == {"a": 2 / 3, "b": 1 / 3}
    assert sum(part["greedy"]["n"] for part in base["by_level"].values()) == 6
    assert base["by_level"]["3"]["samples"]["mean"] == 0.5


def test_levels_are_in_order_of_size_and_names_after_numbers() -> None:
    answers = [{**row, "level": level} for row, level in zip(rows("base", "1111"), ("10", "2", "hard", "1"), strict=True)]
    assert list(evaluation(answers, {}, 0, 1.0)["scores"]["test"]["base"]["by_level"]) == ["1", "2", "10", "hard"]


def test_answers_without_a_score_are_left_out_and_counted() -> None:
    answers = rows("base", "1?0", ["1?", "??", "00"]) + rows("references", "110", ["11", "11", "00"])
    scores = evaluation(answers, {"test": 3}, 2, 1.0)["scores"]["test"]
    assert (scores["base"]["greedy"]["mean"], scores["base"]["greedy"]["n"], scores["base"]["unscored"]) == (0.5, 2, 4)
    assert (scores["base"]["samples"]["mean"], scores["base"]["samples"]["n"]) == (0.5, 2)
    assert scores["references"]["unscored"] == 0
    total = ledger(answers, {})["entries"][-2]
    assert (total["step"], total["measure"], total["gain"]["n"], total["won"], total["lost"]) == ("total", "greedy", 2, 0, 0)
    nan = [{**row, "score": float("nan") if row["score"] is None else row["score"]} for row in answers]
    assert evaluation(nan, {"test": 3}, 2, 1.0) == evaluation(answers, {"test": 3}, 2, 1.0)


def test_an_answer_that_is_there_twice_is_refused() -> None:
    answers = rows("base", "10", ["11", "00"])
    with pytest.raises(DataError, match=r"base.*two greedy answers.*q000.*test"):
        evaluation([*answers, answers[0]], {}, 2, 1.0)
    with pytest.raises(DataError, match=r"two sample answers \(k=1\).*q001"):
        ledger([*answers, answers[5]], {})


def test_the_ledger_pays_each_step_once_and_its_gains_add_up() -> None:
    answers = (
        rows("calibrated", "1111000110", ["11"] * 6 + ["00"] * 4)
        + rows("base", "1000000000", ["00"] * 10)
        + rows("own_pairs", "1111100000", ["10"] * 10)
        + rows("references", "1110000000", ["10"] * 5 + ["00"] * 5)
    )
    entries = ledger(answers, COSTS)["entries"]
    assert [(e["step"], e["from"], e["to"]) for e in entries if e["measure"] == "greedy"] == [
        ("references", "base", "references"),
        ("own_pairs", "references", "own_pairs"),
        ("calibrated", "own_pairs", "calibrated"),
        ("total", "base", "calibrated"),
    ]
    assert [(e["won"], e["lost"]) for e in entries if e["measure"] == "greedy"] == [(2, 0), (2, 0), (2, 1), (5, 0)]
    assert [(e["won"], e["lost"]) for e in entries if e["measure"] == "samples"] == [(5, 0), (5, 0), (6, 4), (6, 0)]
    for measure in ("greedy", "samples"):
        *steps, total = [e["gain"]["mean"] for e in entries if e["measure"] == measure]
        assert sum(steps) == pytest.approx(total)
    assert entries[-1]["cost"] == {"seconds": 175.0, "tokens": 6500, "verifier_calls": 664}
    assert entries[0]["cost"] == COSTS["references"]


def test_a_policy_that_was_skipped_does_not_break_the_chain() -> None:
    entries = ledger(rows("base", "0000") + rows("calibrated", "1100"), COSTS)["entries"]
    assert [(e["step"], e["from"], e["to"]) for e in entries if e["measure"] == "greedy"] == [
        ("calibrated", "base", "calibrated"),
        ("total", "base", "calibrated"),
    ]


def test_gains_are_paired_by_question_whatever_the_order_of_the_rows() -> None:
    answers = rows("base", "10" * 20) + rows("references", "10" * 20)
    assert ledger(answers, {})["entries"][0]["gain"] == {"mean": 0.0, "low": 0.0, "high": 0.0, "n": 40, "p": 1.0}
    assert ledger(list(reversed(answers)), {}) == ledger(answers, {})
    unpaired = rows("base", "10" * 20) + rows("references", "01" * 20)
    entry = ledger(unpaired, {})["entries"][0]
    assert (entry["won"], entry["lost"], entry["gain"]["mean"]) == (20, 20, 0.0)
    assert entry["gain"]["low"] < -0.2 < 0.2 < entry["gain"]["high"]


def test_the_headline_of_learning_rate_0_is_no_change() -> None:
    answers = [row for policy in ("base", "references", "calibrated") for row in rows(policy, "1000" * 10, ["1000"] * 40)]
    headline = ledger(answers, COSTS)["headline"]
    assert headline["verdict"] == "no change"
    assert headline["sentence"] == (
        "No change: on 40 test questions, 25.0\u00a0% of first answers (greedy) are right, before and after, with the same score on every "
        "question, and 25.0\u00a0% of sampled answers, before and after, with the same score on every question."
    )


@pytest.mark.parametrize(
    ("before", "after", "verdict", "opening"),
    [
        ("0" * 40, "1" * 8 + "0" * 32, "improved", "Improved: on 40 test questions, 20.0\u00a0% of first answers (greedy) are right"),
        ("0" * 40, "1" * 3 + "0" * 37, "no change", "No change shown: on 40 test questions, 7.5\u00a0%"),
        ("1" * 40, "0" * 8 + "1" * 32, "worse", "Worse: on 40 test questions, 80.0\u00a0%"),
        ("1" * 10 + "0" * 30, "0" * 10 + "1" * 10 + "0" * 20, "no change", "No change shown"),
    ],
)  # fmt: skip
def test_the_headline_claims_what_the_interval_allows(before: str, after: str, verdict: str, opening: str) -> None:
    headline = ledger(rows("base", before) + rows("calibrated", after), {})["headline"]
    assert headline["verdict"] == verdict
    assert headline["sentence"].startswith(opening)
    assert ("contains 0: nothing shown" in headline["sentence"]) == (verdict == "no change")


def test_greedy_and_samples_stand_side_by_side_also_where_only_one_moved() -> None:
    before, after = rows("base", "1000" * 15, ["1000"] * 60), rows("calibrated", "1000" * 15, ["1110"] * 60)
    headline = ledger(before + after, {})["headline"]
    assert headline["verdict"] == "improved"
    assert "first answers (greedy) are right, before and after" in headline["sentence"]
    assert "75.0\u00a0% of sampled answers instead of 25.0\u00a0%" in headline["sentence"]


def test_a_gain_here_and_a_loss_there_is_mixed_and_both_are_told() -> None:
    answers = rows("base", "0" * 40) + rows("calibrated", "1" * 20 + "0" * 20)
    answers += rows("base", "1" * 40, split="unseen") + rows("calibrated", "0" * 20 + "1" * 20, split="unseen")
    headline = ledger(answers, {})["headline"]
    assert headline["verdict"] == "mixed"
    assert headline["sentence"].index("Improved: on 40 test") < headline["sentence"].index("Worse: on 40 questions on databases that")
    assert {split: part["verdict"] for split, part in headline["splits"].items()} == {"test": "improved", "unseen": "worse"}


def test_a_verdict_that_rests_on_the_second_split_names_it() -> None:
    answers = rows("base", "0" * 40) + rows("calibrated", "0" * 40)
    answers += rows("base", "0" * 40, split="unseen") + rows("calibrated", "1" * 20 + "0" * 20, split="unseen")
    headline = ledger(answers, {})["headline"]
    assert headline["verdict"] == "improved"
    assert headline["sentence"].startswith("No change: on 40 test questions")
    assert "Improved: on 40 questions on databases that training never saw" in headline["sentence"]


def test_one_policy_alone_has_scores_and_no_ledger() -> None:
    answers = rows("base", "10", ["1", "0"])
    assert ledger(answers, COSTS) == {
        "entries": [],
        "headline": {"verdict": "no change", "sentence": "One policy alone was evaluated, so there is no change to report.", "splits": {}},
    }
    assert evaluation(answers, {}, 1, 1.0)["splits"] == {"test": {"questions": 2, "of": 2}}


def test_both_results_are_plain_json() -> None:
    answers = rows("base", "1?", ["1?", "??"]) + rows("references", "01", ["00", "11"])
    for value in (evaluation(answers, {"test": 2}, 2, 1.0), ledger(answers, COSTS)):
        assert json.loads(json.dumps(value, allow_nan=False)) == value
    nothing_in_common = rows("base", "1") + [{**row, "example_id": "other"} for row in rows("references", "1")]
    assert ledger(nothing_in_common, {})["entries"][0]["gain"]["mean"] is None
    json.dumps(ledger(nothing_in_common, {}), allow_nan=False)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        ("PASS", "same rows", None),
        ("WRONG", "no SQL in the answer", "no SQL found"),
        ("CRASH", "no such column: syntax error", "no such column"),
        ("CRASH", "no such table: wrong rows", "no such table"),
        ("CRASH", 'syntax error near "no such column"', "syntax error"),
        ("CRASH", 'near "FROM": syntax error', "syntax error"),
        ("CRASH", "ambiguous column name: id", "ambiguous column"),
        ("CRASH", "misuse of aggregate: COUNT()", "misused aggregate"),
        ("CRASH", "datatype mismatch", "other error"),
        ("WRONG", "wrong number of columns: 2, expected 1", "wrong number of columns"),
        ("WRONG", "no rows", "empty result"),
        ("WRONG", "wrong number of rows: 3, expected 5 (data instance 2)", "wrong number of rows"),
        ("WRONG", "wrong rows (data instance 2)", "wrong rows"),
        ("WRONG", "wrong order", "wrong order"),
        ("WRONG", "something new", "wrong result"),
        ("POLICY", "not a query: DELETE", "not allowed"),
        ("TIMEOUT", "time limit: steps", "time limit"),
        ("LIMIT", "limit: rows (more than 10000)", "resource limit"),
        ("INFRA", "worker lost", "not scored"),
    ],
)
def test_a_failure_has_a_kind(status: str, reason: str, kind: str | None) -> None:
    assert failure_kind({"status": status, "reason": reason}) == kind


def test_failures_are_counted_the_most_frequent_first() -> None:
    answers = (
        [{"status": "WRONG", "reason": "wrong rows"}] * 2
        + [{"status": "PASS", "reason": ""}]
        + [{"status": "CRASH", "reason": "no such table: x"}]
    )
    assert list(failure_counts(answers).items()) == [("wrong rows", 2), ("no such table", 1)]


def test_figures_in_words_never_round_a_gain_to_nothing() -> None:
    assert percent(0.51666) == "51.7\u00a0%"
    assert (percent(0.3125), percent(0.0875), points(-0.3125)) == ("31.3\u00a0%", "8.8\u00a0%", "\u221231.3")
    assert percent(None) == points(None) == "–"
    assert (points(0.0833), points(-0.0833), points(0.0)) == ("+8.3", "\u22128.3", "0.0")
    assert (points(0.0004), points(-0.00004), points(1e-9)) == ("+0.04", "\u22120.004", "0.0")
    gain = {"mean": 0.004, "low": 0.0004, "high": 0.008}
    assert (effect(gain), interval_words(gain)) == ("gain", "+0.04 to +0.8")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.01, 0.2, "gain"), (-0.2, -0.01, "loss"), (-0.1, 0.1, "nothing"), (0.0, 0.1, "nothing"), (0.0, 0.0, "same")],
)
def test_an_effect_is_named_by_its_interval_alone(low: float, high: float, expected: str) -> None:
    assert effect({"mean": (low + high) / 2, "low": low, "high": high}) == expected
