"""Tokens of SQLite, and the clock in a query's text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.sql_tokens import leading_word, reads_clock, tokenize, unquote


def texts(sql: str) -> list[str]:
    return [token.text for token in tokenize(sql)]


def test_tokens_of_every_kind() -> None:
    sql = "SELECT 'it''s', \"a b\", `c`, [d e], x'0f', 1.5e-3, .5, 0x1F -- end\n/* c */ FROM t WHERE a<>b||c"
    assert texts(sql) == [
        "SELECT", "'it''s'", ",", '"a b"', ",", "`c`", ",", "[d e]", ",", "x'0f'", ",", "1.5e-3", ",", ".5", ",", "0x1F", "FROM", "t",
        "WHERE", "a", "<>", "b", "||", "c",
    ]  # fmt: skip
    assert [unquote(token) for token in tokenize("'it''s' \"a\"\"b\" [c]") if token.kind != "op"] == ["it's", 'a"b', "c"]


def test_depth_counts_brackets_and_not_those_in_strings() -> None:
    assert [(token.text, token.depth) for token in tokenize("a ( ')' ( b ) ) c")] == [
        ("a", 0), ("(", 0), ("')'", 1), ("(", 1), ("b", 2), (")", 1), (")", 0), ("c", 0),
    ]  # fmt: skip


@given(st.text())
@settings(deadline=None)
def test_tokens_cover_every_text_in_order(sql: str) -> None:
    at = 0
    for token in tokenize(sql):
        assert token.start >= at and sql[token.start : token.end] == token.text
        at = token.end
    leading_word(sql)
    reads_clock(sql)


def test_long_runs_of_comments_take_no_time() -> None:
    assert leading_word("/* a */" * 5000 + "1") == ""
    assert leading_word("-- a\n" * 5000 + "SELECT 1") == "SELECT"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("select 1", "SELECT"),
        ("  (SELECT 1)", "SELECT"),
        ("-- x\n/* y */ with a", "WITH"),
        ("Update: done", ""),
        ("", ""),
        ("1", ""),
        ("SELECT*", "SELECT"),
    ],
)
def test_leading_word(text: str, word: str) -> None:
    assert leading_word(text) == word


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT julianday('now') - julianday(day) FROM t", True),
        ("SELECT t.current_date FROM t", False),
        ("SELECT date(day, 'start of month') FROM t", False),
        ("SELECT 'it is now' FROM t", False),
        ("SELECT x FROM t WHERE state <> 'now'", False),
        ("SELECT time ( ) FROM t", True),
        ('SELECT date("now")', True),
    ],
)
def test_reads_clock(sql: str, reads: bool) -> None:
    assert reads_clock(sql) is reads
