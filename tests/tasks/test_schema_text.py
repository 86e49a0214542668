"""The schema as it stands in prompts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from prefkit.errors import DatabaseError
from prefkit.tasks.schema_text import connect, schema_text


def make(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, note VARCHAR(20), joined TEXT, vip INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, status TEXT);
"""


def test_tables_columns_keys_and_few_values(tmp_path: Path) -> None:
    one = make(tmp_path / "1.sqlite", SHOP + "INSERT INTO customers VALUES (1, 'Ann', 'private', NULL, '2024-01-02', 1);")
    two = make(
        tmp_path / "2.sqlite",
        SHOP + "INSERT INTO customers VALUES (1, 'A person with a very long name', 'business', NULL, '2025-01-02', 0);"
        "INSERT INTO orders VALUES (1, 1, 'open'), (2, 1, 'open');",
    )
    assert schema_text([one, two]) == (
        "customers: id, name, kind (business, private), note, joined, vip\norders: id, customer_id -> customers.id, status (open)"
    )
    assert schema_text([one, two], values=False) == (
        "customers: id, name, kind, note, joined, vip\norders: id, customer_id -> customers.id, status"
    )


def test_more_values_than_a_few_are_not_shown(tmp_path: Path) -> None:
    rows = [
        make(tmp_path / f"{i}.sqlite", "CREATE TABLE t (a TEXT);" + "".join(f"INSERT INTO t VALUES ('v{i}{j}');" for j in range(4)))
        for i in (1, 2)
    ]
    assert schema_text(rows[:1]) == "t: a (v10, v11, v12, v13)"
    assert schema_text(rows) == "t: a"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("'x'", " (x)"),
        ("'a, b'", " ('a, b')"),
        ("'it''s (b)'", " ('it''s (b)')"),
        ("''", ""),
        ("'a\nb'", ""),
        ("x'00ff'", ""),
        ("'2024-05-06'", ""),
    ],
)
def test_values_are_shown_as_they_can_be_read(tmp_path: Path, value: str, shown: str) -> None:
    path = make(tmp_path / "a.sqlite", f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES ({value});")
    assert schema_text([path]) == f"t: a{shown}"


def test_names_that_need_quotes_have_them(tmp_path: Path) -> None:
    script = """
    CREATE TABLE "Order Details" (id INTEGER PRIMARY KEY, "unit price" REAL, "group" INTEGER);
    CREATE TABLE "order" (
      id INTEGER PRIMARY KEY, detail INTEGER REFERENCES "Order Details"(id), same REAL REFERENCES "Order Details"("unit price")
    );
    """
    path = make(tmp_path / "a.sqlite", script)
    assert schema_text([path]) == (
        '"Order Details": id, "unit price", "group"\n"order": id, detail -> "Order Details".id, same -> "Order Details"."unit price"'
    )


def test_tables_of_full_text_search_and_of_sqlite_itself_are_left_out(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE VIRTUAL TABLE f USING fts5(body);")
    assert [line.partition(":")[0] for line in schema_text([path]).splitlines()] == ["t", "f"]


def test_a_missing_file_and_one_that_is_no_database_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello, I am no database, but long enough to be looked at as one" * 20)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(DatabaseError, match=r"no database at .*nothing\.sqlite"):
        connect(tmp_path / "nothing.sqlite")
    with pytest.raises(DatabaseError, match=r"notes\.txt is no SQLite database"):
        connect(tmp_path / "notes.txt")
    with pytest.raises(DatabaseError, match=r"no database at"):
        connect(tmp_path)
    with pytest.raises(DatabaseError, match="has no tables"):
        schema_text([tmp_path / "empty.sqlite"])


def test_rows_that_stand_in_a_write_ahead_log_only_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    writer = sqlite3.connect(path)
    writer.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x');")
    with pytest.raises(DatabaseError, match="wal_checkpoint"):
        connect(path)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert schema_text([path]) == "t: a (x)"
    writer.close()


def test_reading_leaves_nothing_beside_the_file_and_cannot_write(tmp_path: Path) -> None:
    path = make(tmp_path / "a b?%#.sqlite", "CREATE TABLE t (a TEXT);")
    before = path.read_bytes()
    assert schema_text([path]) == "t: a"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connect(path).execute("INSERT INTO t VALUES ('x')")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
