"""What may be wrong with pairs: each fault is planted, found and counted; and what is well is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from prefkit.data.pair_checks import ENOUGH_PAIRS, dropped, figures, leakage, spread, tables_of, warnings
from prefkit.tasks.base import Example

Row = dict[str, Any]
END = 2


def said(text: str) -> list[Row]:
    return [{"role": "assistant", "content": text}]


def pair(chosen: str = "right", rejected: str | None = "wrong", **changes: Any) -> Row:
    row = {
        "id": "a", "example_id": "q1", "database": "shop", "level": 1, "source": "model", "rejected_source": rejected and "model",
        "rejected_status": rejected and "WRONG", "prompt": [{"role": "user", "content": "How  many?"}], "prompt_ids": [10, 11],
        "chosen": said(chosen), "rejected": rejected and said(rejected), "chosen_ids": [*map(ord, chosen), END],
        "rejected_ids": rejected and [*map(ord, rejected), END],
    }  # fmt: skip
    return {**row, **changes}


# What is dropped


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"rejected_ids": [*map(ord, "right"), END]}, "dropped_identical"),
        ({"rejected": said("right")}, "dropped_identical"),
        ({"prompt_ids": [10] * 15}, "dropped_long"),
        ({"rejected_ids": [21] * 18 + [END]}, "dropped_long"),
        ({"chosen_ids": [20]}, "dropped_end_token"),
        ({"rejected_ids": [21]}, "dropped_end_token"),
        ({"chosen_ids": [20, END, END]}, "dropped_end_token"),
        ({"rejected_ids": [END, 21]}, "dropped_end_token"),
        ({"rejected_ids": []}, "dropped_end_token"),
        ({"rejected": None, "rejected_ids": None, "chosen_ids": [20]}, "dropped_end_token"),
        ({"rejected": None, "rejected_ids": None, "prompt_ids": [10] * 15}, "dropped_long"),
        ({"id": "b"}, "dropped_duplicate"),
        ({"id": "b", "prompt": [{"role": "user", "content": "how many? "}], "prompt_ids": [10, 12]}, "dropped_duplicate"),
    ],
)
def test_what_would_train_wrongly_is_dropped_and_counted(changes: Row, kind: str) -> None:
    rows, counts = dropped([pair(), {**pair(), **changes}], 20, END)
    assert rows == [pair()]
    assert counts == {kind: 1}


def test_a_row_as_long_as_allowed_is_kept_whole() -> None:
    row = pair(prompt_ids=[10] * 14)
    assert dropped([row], 20, END) == ([row], {})
    assert dropped([], 20, END) == ([], {})


def test_several_pairs_of_one_prompt_are_no_duplicates() -> None:
    rows = [pair(), pair(rejected="other"), pair(chosen="also"), pair(rejected=None), pair(prompt=[{"role": "user", "content": "Who?"}])]
    assert dropped([*rows, *rows], 20, END) == (rows, {"dropped_duplicate": len(rows)})


# What is counted


def test_lengths_and_sources() -> None:
    rows = [
        pair("longer", "abc"), pair("same", "samE"), pair("ab", "abcd", rejected_source="mutation"), pair("long", "l", source="history"),
        pair("alone" * 9, None, source="reference"),
    ]  # fmt: skip
    counts = figures(rows)
    assert (counts["rows"], counts["pairs"]) == (5, 4)
    assert (counts["model"], counts["reference"], counts["correction"], counts["history"], counts["rejected_mutation"]) == (3, 1, 0, 1, 1)
    assert counts["chosen_longer_share"] == 0.5
    assert counts["chosen_longer_by"] == 1.0, "3, 0, -2 and 3 tokens"
    assert counts["length_tells_share"] == 0.625, "two of four, and half of the tie"


def test_without_pairs_there_is_nothing_to_tell_apart() -> None:
    for rows in ([], [pair(rejected=None)]):
        counts = figures(rows)
        assert (counts["rows"], counts["pairs"]) == (len(rows), 0)
        assert {counts[name] for name in counts if name.endswith(("_share", "_by", "_feature"))} == {None}
        assert warnings(counts) == []


@pytest.mark.parametrize(
    ("chosen", "rejected", "feature"),
    [
        ("SELECT 1", "```sql\nSELECT 1\n```", "less on the right side: has a fence"),
        ("SELECT a;", "SELECT b", "more on the right side: has a semicolon"),
        ("SELECT a", "The answer", "more on the right side: starts with SELECT"),
        ("select a from t", "select A from T", "less on the right side: share of capitals"),
        ("select a\nfrom t", "select b from t", "more on the right side: number of lines"),
        ("select (a)", "select (a,", "more on the right side: ends properly"),
        (" select a", "select b", "more on the right side: space at either end"),
    ],
)
def test_a_feature_of_form_that_tells_right_from_wrong_is_named(chosen: str, rejected: str, feature: str) -> None:
    # In every fifth pair the sides look alike: nine tenths are told apart, a tie counting half.
    rows = [pair(chosen, rejected) if number % 5 else pair("select x", "select y") for number in range(50)]
    counts = figures(rows)
    assert (counts["form_tells_share"], counts["form_feature"]) == (0.9, feature)
    (warning,) = (found for found in warnings(counts) if "form tells" in found)
    assert "90% of 50 pairs" in warning and feature in warning


def test_sides_of_one_form_and_length_give_no_warning() -> None:
    counts = figures([pair("select a from t", "select b from t") for _ in range(100)])
    assert (counts["length_tells_share"], counts["form_tells_share"]) == (0.5, 0.5)
    assert warnings(counts) == []


@pytest.mark.parametrize(("chosen", "rejected", "side"), [("select aa", "select a", "longer"), ("select a", "select aa", "shorter")])
def test_length_that_predicts_the_label_is_a_warning_where_there_are_enough_pairs(chosen: str, rejected: str, side: str) -> None:
    (warning,) = warnings(figures([pair(chosen, rejected)] * ENOUGH_PAIRS))
    assert f"the {side} side is the right one in 100% of {ENOUGH_PAIRS} pairs" in warning
    assert warnings(figures([pair(chosen, rejected)] * (ENOUGH_PAIRS - 1))) == []


def test_rows_spread_over_levels_databases_tables_and_failures() -> None:
    rows = [
        pair("SELECT a FROM Item JOIN sale ON 1", level=3),
        pair("```sql\nSELECT a FROM item\n```", rejected_status="CRASH", rejected_reason="no such column: evil | <b>", level=1),
        pair("WITH few AS (SELECT 1 FROM sale) SELECT * FROM few", None, database="farm", level=1),
        pair("no query", rejected_status=None),
    ]
    assert spread(rows) == {
        "by_level": {"1": 3, "3": 1},
        "by_database": {"farm": 1, "shop": 3},
        "by_table": {"farm.sale": 1, "shop.item": 2, "shop.sale": 1},
        "by_failure": {"CRASH: no such column": 1, "WRONG": 1, "not recorded": 1},
    }


def test_the_tables_of_a_query() -> None:
    assert tables_of('SELECT 1 FROM a, (SELECT * FROM "b") JOIN [c] ON 1 WHERE x IN (SELECT y FROM `d`)') == {"a", "b", "c", "d"}
    assert tables_of("nothing here") == set()


# Leakage


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, {}),
        ({"example_id": "held"}, {"leaked_ids": 1}),
        ({"example_id": "asked the same"}, {"leaked_questions": 1}),
        ({"chosen": said("select NAME from item where price >  7")}, {"leaked_queries": 1}),
        ({"chosen": said("Here:\n```sql\nSELECT name FROM item WHERE price > 5;\n```")}, {"leaked_queries": 1}),
    ],
)
def test_what_a_row_shares_with_a_held_out_question_is_counted(change: Row, found: Row) -> None:
    held_out = [Example("held", "test", "shop", 1, "Which items are dear?", ("SELECT name FROM item WHERE price > 3", "SELECT 1"))]
    questions = {"q1": "How many?", "asked the same": "which items are DEAR"}
    counts = leakage([pair("SELECT price FROM item"), {**pair("SELECT price FROM item"), **change}], questions, held_out)
    assert {name: count for name, count in counts.items() if count} == found
    assert len(warnings(counts)) == len(found)


def test_a_question_that_is_not_known_leaks_nothing() -> None:
    assert leakage([pair("no query")], {}, [Example("held", "test", "shop", 1, "", "SELECT 1")])["leaked_questions"] == 0
