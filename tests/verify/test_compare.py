"""sql-compare/1 against its table, and against an independent slow comparer."""

from __future__ import annotations

import math
import time
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prefkit.verify.compare import Expected, difference, same_bag, same_value

Row = tuple


def slow_value(a: object, b: object) -> bool:
    """The rules, written again: exact within a type, numbers by value, floats within a tolerance."""
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    if isinstance(a, bytes) or isinstance(b, bytes):
        return isinstance(a, bytes) and isinstance(b, bytes) and a == b
    assert isinstance(a, (int, float)) and isinstance(b, (int, float))
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if math.isinf(a) or math.isinf(b):
        return a == b
    return a == b or abs(a - b) <= max(1e-6 * max(abs(a), abs(b)), 1e-9)


def slow_bag(a: list[Row], b: list[Row]) -> bool:
    """Whether the rows can be paired so that each pair agrees: a bipartite matching by augmenting paths."""
    if len(a) != len(b):
        return False
    agrees = [[len(x) == len(y) and all(map(slow_value, x, y)) for y in b] for x in a]
    partner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j in range(len(b)):
            if agrees[i][j] and j not in seen:
                seen.add(j)
                if j not in partner or place(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(a)))


NUMBERS = st.sampled_from([0, 1, 3, 1000, 2**53, -7])
# Values near a few centres that lie far from each other: what aggregates of the same rows in another order look like.
NEAR = st.builds(
    lambda centre, noise: centre * (1 + noise),
    st.sampled_from([1.0, 3.0, 0.1, 1000.0, -2.5, 9.9999995, 1e-12]),
    st.sampled_from([0.0, 4e-7, -4e-7, 1e-15, 2e-5]),
)
DENSE = st.builds(lambda k: 1.0 + k * 4e-7, st.integers(0, 12))
VALUES = st.one_of(
    st.none(),
    NUMBERS,
    NEAR,
    NUMBERS.map(float),
    st.sampled_from(["", "1", "a", "A", "1.0"]),
    st.sampled_from([b"", b"a", b"1"]),
    st.just(math.inf),
)


def tables(values: st.SearchStrategy[object], rows: int = 5) -> st.SearchStrategy[tuple[list[Row], list[Row]]]:
    """Two tables of one width, the second often a shuffled and slightly changed first."""

    def pair(width: int) -> st.SearchStrategy[tuple[list[Row], list[Row]]]:
        row = st.tuples(*[values] * width)
        table = st.lists(row, max_size=rows)
        changed = table.flatmap(lambda first: st.tuples(st.just(first), st.permutations(first).map(list)))
        nudged = changed.map(lambda two: (two[0], [tuple(v * (1 + 3e-7) if isinstance(v, float) else v for v in row) for row in two[1]]))
        return st.one_of(st.tuples(table, table), changed, nudged)

    return st.integers(1, 3).flatmap(pair)


@given(tables(VALUES))
@settings(max_examples=400, deadline=None)
def test_agrees_with_the_slow_comparer(two: tuple[list[Row], list[Row]]) -> None:
    first, second = two
    assert same_bag(first, second) == slow_bag(first, second)
    assert same_bag(second, first) == slow_bag(first, second)


@given(tables(DENSE, rows=6))
@settings(max_examples=400, deadline=None)
def test_dense_floats_are_never_accepted_wrongly(two: tuple[list[Row], list[Row]]) -> None:
    first, second = two
    if same_bag(first, second):
        assert slow_bag(first, second)


@given(st.lists(st.tuples(DENSE), max_size=6), st.lists(st.tuples(DENSE), max_size=6))
@settings(deadline=None)
def test_one_column_of_dense_floats_is_exact(first: list[Row], second: list[Row]) -> None:
    """With one column, sorted pairing finds every matching, unless equal rows were taken away first: these are left out."""
    if not set(first) & set(second):
        assert same_bag(first, second) == slow_bag(first, second)


@given(VALUES, VALUES)
@settings(deadline=None)
def test_values_agree_with_the_slow_comparer(a: object, b: object) -> None:
    assert same_value(a, b) == slow_value(a, b) == same_value(b, a)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (3, 3.0, True),
        (1, "1", False),
        ("a", "A", False),
        ("a", b"a", False),
        (None, None, True),
        (None, 0, False),
        (None, "", False),
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.000002, False),
        (0.0, 1e-10, True),
        (0.0, 1e-8, False),
        (0.0, -0.0, True),
        (1_000_000, 1_000_001, False),
        (1_000_000.0, 1_000_000.5, True),
        (2**53 + 1, float(2**53), True),
        (math.inf, math.inf, True),
        (math.inf, 1e308, False),
        ("é", "e\u0301", False),
        (" a", "a", False),
    ],
)
def test_values(a: object, b: object, same: bool) -> None:
    assert same_value(a, b) is same


def expected(rows: list[Row], ties: tuple[int, ...] | None = None) -> Expected:
    return Expected(len(rows[0]) if rows else 1, rows, ties)


def test_reasons() -> None:
    gold = expected([(1, "a"), (2, "b"), (2, "b")])
    assert difference(gold, 2, [(2, "b"), (1, "a"), (2, "b")]) is None
    assert difference(gold, 1, [(1,)] * 3) == "wrong number of columns: 1, expected 2"
    assert difference(gold, 2, []) == "no rows"
    assert difference(gold, 2, [(1, "a"), (2, "b")]) == "wrong number of rows: 2, expected 3"
    assert difference(gold, 2, [(1, "a"), (1, "a"), (2, "b")]) == "wrong rows"
    assert difference(gold, 2, [("a", 1), ("b", 2), ("b", 2)]) == "wrong rows"
    assert difference(expected([]), 1, [(1,)]) == "wrong number of rows: 1, expected 0"
    assert difference(expected([]), 1, []) is None


def test_order_counts_only_between_different_sort_keys() -> None:
    rows = [("a", 3), ("b", 2), ("c", 2), ("d", 1)]
    gold = expected(rows, ties=(1, 2, 1))
    right = [order for order in permutations(rows) if difference(gold, 2, list(order)) is None]
    assert right == [(rows[0], rows[1], rows[2], rows[3]), (rows[0], rows[2], rows[1], rows[3])]
    assert difference(gold, 2, [rows[1], rows[0], rows[2], rows[3]]) == "wrong order"
    assert difference(gold, 2, [("a", 3), ("b", 2), ("x", 2), ("d", 1)]) == "wrong rows"


def test_rounding_edges_decide_nothing() -> None:
    """Values within the tolerance agree wherever a rounding would cut between them, in the first column and in later ones."""
    for digits in range(1, 9):
        edge = 1 + 5 * 10.0**-digits
        below, above = edge * (1 - 1e-7), edge * (1 + 1e-7)
        assert same_bag([(below, "a"), (above, "b")], [(above, "a"), (below, "b")])
        assert same_bag([(1, below, 2.0), (1, above, 1.0)], [(1, below, 1.0), (1, above, 2.0)])
        assert not same_bag([(below, "a"), (above, "b")], [(above, "a"), (below, "c")])


def test_a_chain_of_close_values_is_not_one_value() -> None:
    chain = [1 + k * 9e-7 for k in range(100)]
    assert same_bag([(value,) for value in chain], [(value,) for value in reversed(chain)])
    assert not same_bag([(value,) for value in chain], [(chain[0],)] * 100)
    days = [2_460_000.5 + k for k in range(50)]  # Julian days: a tolerance of two days and a half, but not of fifty
    assert not same_bag([(day,) for day in days], [(day + 10,) for day in days])


@example([(1, 1.0, 1)], [2, 0, 1])
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=4), st.permutations(range(3)))
@settings(deadline=None)
def test_any_order_of_columns(rows: list[Row], order: list[int]) -> None:
    shuffled = [tuple(row[i] for i in order) for row in rows]
    assert difference(expected(rows), len(rows[0]), shuffled, "any_order") is None


def test_any_order_keeps_rows_together() -> None:
    gold = expected([(1, 2, "x"), (2, 1, "y")])
    assert difference(gold, 3, [("x", 2, 1), ("y", 1, 2)], "any_order") is None
    assert difference(gold, 3, [("x", 1, 2), ("y", 2, 1)], "any_order") is None  # the same columns by other names
    assert difference(gold, 3, [("x", 1, 1), ("y", 2, 2)], "any_order") == "wrong rows"
    assert difference(gold, 3, [("x", 2, 1), ("y", 1, 2)]) == "wrong rows"
    assert difference(expected([(1, "a"), (2, "b")], ties=(1, 1)), 2, [("b", 2), ("a", 1)], "any_order") == "wrong order"


def test_time_is_linearithmic() -> None:
    rows = [(i * 0.1, f"n{i % 97}", None, i * 1e-3) for i in range(20_000)]
    other = [(a * (1 + 1e-9), b, c, d * (1 - 1e-9)) for a, b, c, d in reversed(rows)]
    begun = time.process_time()
    assert same_bag(rows, other)
    assert time.process_time() - begun < 3.0
