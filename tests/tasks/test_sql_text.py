"""Queries and questions as text."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.tasks import sql_text
from prefkit.tasks.overlap import near_duplicates
from prefkit.tasks.sql_text import level_of, normalised, skeleton, words


def test_the_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(sql_text)
    assert result.attempted >= 2
    assert result.failed == 0


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("SELECT a FROM t WHERE b = 'x'", "select a from t where b = 'other'", True),
        ("SELECT a FROM t LIMIT 3", "SELECT a FROM t LIMIT 10;", True),
        ("SELECT a FROM t WHERE b > 1.5", "SELECT a FROM t WHERE b > 20", True),
        ("SELECT a FROM t WHERE b = 'it''s 5'", "SELECT a FROM t WHERE b = ''", True),
        ("SELECT a FROM t WHERE b > 1", "SELECT a FROM t WHERE b >= 1", False),
        ("SELECT a FROM t", "SELECT b FROM t", False),
        ("SELECT a FROM t1", "SELECT a FROM t2", False),
    ],
)
def test_skeleton_masks_literals_and_nothing_else(a: str, b: str, same: bool) -> None:
    assert (skeleton(a) == skeleton(b)) is same


def test_normalised_keeps_what_is_in_quotes() -> None:
    assert normalised("SELECT A  FROM t WHERE b = 'X  Y' ;") == "select a from t where b = 'X  Y'"
    assert normalised('SELECT "Order  Id" FROM t') == 'select "Order  Id" from t'


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        ("SELECT name FROM t WHERE price > 3 ORDER BY name", 1),
        ("SELECT DISTINCT city FROM t", 1),
        ("SELECT COUNT(*) FROM t WHERE a = 1", 2),
        ("SELECT ROUND(AVG(price), 2) FROM t", 2),
        ("SELECT a, COUNT(*) FROM t GROUP BY a", 3),
        ("SELECT a FROM t ORDER BY b DESC LIMIT 1", 3),
        ("SELECT t.a FROM t JOIN u ON u.id = t.u_id", 4),
        ("SELECT u.a, SUM(t.b) FROM t JOIN u ON u.id = t.u_id GROUP BY u.a", 4),
        ("SELECT a FROM t WHERE id IN (SELECT t_id FROM u)", 5),
        ("SELECT a FROM t WHERE b IS NULL", 5),
        ("SELECT a FROM t WHERE b IS NOT NULL", 5),
        ("SELECT a FROM t WHERE strftime('%Y', d) = '2024'", 5),
        ("SELECT a FROM t WHERE d >= '2024-03-01'", 5),
        ("SELECT a FROM t UNION SELECT a FROM u", 5),
        ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", 5),
        ("not a query at all (", 5),
    ],
)
def test_level_is_read_off_the_query(sql: str, level: int) -> None:
    assert level_of(sql) == level


def test_near_duplicates_finds_those_that_share_their_words() -> None:
    questions = ["How many customers live in Leeds?", "List all products."]
    others = ["How many customers live in York?", "how many customers, live in Leeds", "Which orders are late?"]
    assert near_duplicates(questions, others) == [(0, 1, 1.0)]
    assert [(i, j) for i, j, _ in near_duplicates(questions, others, 0.7)] == [(0, 0), (0, 1)]


@given(
    st.lists(st.text("abcd ", max_size=12), max_size=8),
    st.lists(st.text("abcd ", max_size=12), max_size=8),
    st.sampled_from([0.5, 0.7, 0.8, 1.0]),
)
def test_near_duplicates_agrees_with_comparing_all(questions: list[str], others: list[str], least: float) -> None:
    def overlap(a: str, b: str) -> float:
        left, right = set(words(a)), set(words(b))
        return len(left & right) / len(left | right) if left and right else 0.0

    expected = [(i, j) for i, a in enumerate(questions) for j, b in enumerate(others) if overlap(a, b) >= least]
    assert [(i, j) for i, j, _ in near_duplicates(questions, others, least)] == expected
