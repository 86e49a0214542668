"""Balanced subsets and disjoint parts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.errors import DataError
from prefkit.tasks.base import Example
from prefkit.tasks.sampling import PARTS, gold_groups, make_parts, subset, without_golds
from prefkit.tasks.sql_text import normalised


def questions(databases: dict[str, int], same_gold: int = 1) -> list[Example]:
    """`databases`: name -> number of questions, levels in turn; every `same_gold` neighbours of a level have one gold."""
    return [
        Example(f"{name}-{i}", "train", name, i % 5 + 1, f"question {i}", f"SELECT {i % 5}, {i // 5 // same_gold}")
        for name, n in databases.items()
        for i in range(n)
    ]


def golds(part: tuple[Example, ...]) -> set[tuple[str, str]]:
    return {(example.database, normalised(gold)) for example in part for gold in example.golds}


def test_subset_keeps_the_shares_of_databases_and_levels() -> None:
    examples = questions({"a": 100, "b": 100, "c": 50})
    chosen = subset(examples, 50, seed=3)
    assert len(chosen) == 50
    assert Counter(example.database for example in chosen) == {"a": 20, "b": 20, "c": 10}
    assert set(Counter(example.level for example in chosen).values()) == {10}
    assert [examples.index(example) for example in chosen] == sorted(examples.index(example) for example in chosen)


def test_subset_of_all_is_all_and_a_smaller_one_is_part_of_a_larger() -> None:
    examples = questions({"a": 30, "b": 12})
    assert subset(examples, None, 1) == examples
    assert subset(examples, 42, 1) == examples
    assert subset(examples, 1000, 1) == examples
    assert subset(examples, 0, 1) == []
    assert set(subset(examples, 10, 1)) < set(subset(examples, 20, 1))


def test_the_seed_decides() -> None:
    examples = questions({"a": 100})
    assert subset(examples, 20, 1) == subset(examples, 20, 1)
    assert subset(examples, 20, 1) != subset(examples, 20, 2)


def test_parts_have_the_sizes_asked_for_and_are_balanced() -> None:
    parts = make_parts(questions({"a": 300, "b": 100}), 17, {"references": 80, "own": 60, "calibrate": 40, "readiness": 20})
    assert parts.counts == {"references": 80, "own": 60, "calibrate": 40, "readiness": 20}
    assert parts.available == 400
    for name in PARTS:
        part = getattr(parts, name)
        share = Counter(example.database for example in part)
        assert abs(share["a"] - len(part) * 0.75) <= 1
        assert max(abs(count - len(part) / 5) for count in Counter(example.level for example in part).values()) <= 1


def test_a_larger_part_contains_the_smaller_one_of_the_same_seed() -> None:
    examples = questions({"a": 100, "b": 100})
    small, large = (make_parts(examples, 5, {"references": n, "own": 20}) for n in (30, 60))
    assert set(small.references) < set(large.references)


def test_null_takes_an_equal_share_of_the_rest() -> None:
    parts = make_parts(questions({"a": 103}), 1, {"references": None, "own": None, "calibrate": 13, "readiness": 0})
    assert parts.counts == {"references": 45, "own": 45, "calibrate": 13, "readiness": 0}


def test_too_few_questions_reduce_all_parts_in_proportion_and_say_so() -> None:
    parts = make_parts(questions({"a": 50}), 1, {"references": 300, "own": 300, "calibrate": 200, "readiness": 0})
    assert parts.counts == {"references": 18, "own": 18, "calibrate": 12, "readiness": 0}
    assert parts.wanted["references"] == 300
    assert parts.available == 50


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(DataError, match="-1 own questions"):
        make_parts(questions({"a": 50}), 1, {"own": -1})


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    same=st.integers(1, 4),
    wanted=st.fixed_dictionaries({name: st.none() | st.integers(0, 60) for name in PARTS}),
    seed=st.integers(0, 5),
)
def test_no_question_and_no_gold_is_in_two_parts(sizes: list[int], same: int, wanted: dict[str, int | None], seed: int) -> None:
    examples = questions({f"d{i}": n for i, n in enumerate(sizes)}, same_gold=same)
    parts = make_parts(examples, seed, wanted)
    taken = [example.id for name in PARTS for example in getattr(parts, name)]
    assert len(taken) == len(set(taken)) <= len(examples)
    for i, name in enumerate(PARTS):
        limit = wanted[name]
        assert limit is None or len(getattr(parts, name)) <= limit
        for other in PARTS[i + 1 :]:
            assert not golds(getattr(parts, name)) & golds(getattr(parts, other))


def test_golds_that_differ_in_spelling_only_stay_together() -> None:
    examples = [
        Example("1", "train", "a", 1, "q", "SELECT x FROM t WHERE y = 'A b'"),
        Example("2", "train", "a", 1, "q", "select  x from T where y = 'A b';"),
        Example("3", "train", "a", 1, "q", "SELECT x FROM t WHERE y = 'a b'"),
        Example("4", "train", "b", 1, "q", "SELECT x FROM t WHERE y = 'A b'"),
    ]
    assert sorted(sorted(example.id for example in group) for group in gold_groups(examples)) == [["1", "2"], ["3"], ["4"]]


def test_accepted_golds_join_groups_over_each_other() -> None:
    examples = [
        Example("1", "train", "a", 1, "q", "SELECT 1"),
        Example("2", "train", "a", 1, "q", "SELECT 2"),
        Example("3", "train", "a", 1, "q", ("SELECT 1", "SELECT 2")),
        Example("4", "train", "a", 1, "q", "SELECT 2"),
    ]
    assert sorted(len(group) for group in gold_groups(examples)) == [4]


def test_golds_that_are_shown_elsewhere_are_left_out_where_they_only_verify() -> None:
    examples = [Example(f"q{number}", "train", "shop", 1, f"{number}?", f"SELECT {number}") for number in range(12)]
    parts = make_parts(examples, 1, {"references": 4, "own": 4, "calibrate": 4})
    shown = [Example("new", "ingested", "shop", 1, "new?", f"select  {one.gold[7:]};") for one in (parts.references[0], parts.own[0])]
    other = Example("other", "ingested", "farm", 1, "new?", parts.calibrate[0].gold)
    left = without_golds(parts, [*shown, other])
    assert (left.references, left.calibrate) == (parts.references, parts.calibrate)
    assert left.own == parts.own[1:]
