"""The columns and values of a database, over all its data instances."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from prefkit.errors import DatabaseError
from prefkit.tasks.sql_columns import LONGEST_VALUE, MOST_VALUES, Columns


@pytest.fixture
def columns(tmp_path: Path) -> Columns:
    paths = [tmp_path / "one.sqlite", tmp_path / "two.sqlite"]
    for path, kind in zip(paths, ("fruit", "green"), strict=True):
        with sqlite3.connect(path) as connection:
            connection.executescript('CREATE TABLE "Item Box" (Id INTEGER, "the kind" TEXT, price REAL, data BLOB);')
            connection.execute("INSERT INTO \"Item Box\" VALUES (1, ?, 2.5, x'ff')", (kind,))
            connection.executemany('INSERT INTO "Item Box" VALUES (?, ?, NULL, NULL)', [(2, "x" * (LONGEST_VALUE + 1)), (3, None)])
    return Columns(paths)


def test_tables_and_columns_are_found_in_any_case(columns: Columns) -> None:
    assert columns.tables == {"item box": ("Id", "the kind", "price", "data")}


def test_values_are_the_short_texts_of_all_instances(columns: Columns) -> None:
    assert columns.values("ITEM BOX", "The Kind") == ("fruit", "green")
    assert columns.values("item box", "price") == columns.values("item box", "data") == ()


def test_what_is_not_there_has_no_values(columns: Columns) -> None:
    assert columns.values("nothing", "x") == columns.values("item box", 'x" FROM sqlite_master --') == ()


def test_of_many_values_some_are_taken(columns: Columns) -> None:
    with sqlite3.connect(columns.databases[0]) as connection:
        connection.executemany('INSERT INTO "Item Box" VALUES (4, ?, NULL, NULL)', [(f"kind {number}",) for number in range(500)])
    assert 2 <= len(columns.values("item box", "the kind")) <= 2 * MOST_VALUES


def test_text_that_is_no_unicode_is_left_out(columns: Columns) -> None:
    with sqlite3.connect(columns.databases[1]) as connection:
        connection.execute('UPDATE "Item Box" SET "the kind" = CAST(x\'ff\' AS TEXT) WHERE Id = 1')
    assert columns.values("item box", "the kind") == ("fruit",)


def test_a_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"gone\.sqlite"):
        _ = Columns([tmp_path / "gone.sqlite"]).tables
