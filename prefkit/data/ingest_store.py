"""What is known of a log while it is ingested: a scratch database on the disk, so that a log of a million lines needs little memory.

Only redacted text is put into it. Lines of one question share a group; texts that are the same answer to it are kept, and judged, once.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE groups (
    id INTEGER PRIMARY KEY, database TEXT, key TEXT, question TEXT,
    known TEXT,     -- the id of the task's question that this is
    held TEXT,      -- why nothing of it may train
    problem TEXT,   -- why no correction of it can be taken
    gold INTEGER,   -- the answer that is its reference: a correction that was taken
    level INTEGER, made TEXT,
    UNIQUE (database, key)
);
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, grp INTEGER, content TEXT, query INTEGER, line INTEGER,
    correction INTEGER DEFAULT 0,
    fault TEXT,     -- why it is no correction: '' where it is one, NULL where it was not asked
    status TEXT, score REAL, verdict TEXT,
    UNIQUE (grp, content)
);
CREATE TABLE lines (
    number INTEGER PRIMARY KEY, id BLOB, grp INTEGER, answer INTEGER, correction INTEGER, retry INTEGER, retry_of BLOB, thumb INTEGER,
    error TEXT, spoiled TEXT
);
CREATE INDEX line_ids ON lines (id);
CREATE INDEX group_lines ON lines (grp);
CREATE TABLE attempts (failed INTEGER, repair INTEGER, kind TEXT, line INTEGER, error TEXT, passed INTEGER, PRIMARY KEY (failed, repair));
CREATE TABLE faults (line INTEGER, sort TEXT, reason TEXT, detail TEXT);
"""
PAGE = 1000

Row = sqlite3.Row


class Store:
    """The scratch database in the new file `path`. Ids of lines are kept as hashes under a key that is thrown away."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;" + TABLES + "BEGIN;")
        self._secret = secrets.token_bytes(32)

    def close(self) -> None:
        self.connection.close()

    def id_hash(self, id: str | None) -> bytes | None:
        """What stands for a line's id."""
        return None if id is None else hashlib.blake2b(id.encode(), key=self._secret, digest_size=16).digest()

    def group(self, database: str, key: str, question: str, known: str | None, held: str | None) -> int:
        """The group of a question; made where it is new. One line that may not train keeps its whole group from training."""
        row = self.one("SELECT id, held FROM groups WHERE database = ? AND key = ?", database, key)
        if row is None:
            columns = "INSERT INTO groups (database, key, question, known, held) VALUES (?, ?, ?, ?, ?)"
            return self._insert(columns, database, key, question, known, held)
        if held and not row["held"]:
            self.do("UPDATE groups SET held = ? WHERE id = ?", held, row["id"])
        return row["id"]

    def answer(self, group: int, content: str, query: bool, line: int, correction: bool) -> int:
        """The answer with that text to that question; made where it is new."""
        row = self.one("SELECT id FROM answers WHERE grp = ? AND content = ?", group, content)
        found = row["id"] if row else self._insert(
            "INSERT INTO answers (grp, content, query, line) VALUES (?, ?, ?, ?)", group, content, query, line
        )  # fmt: skip
        if correction:
            self.do("UPDATE answers SET correction = 1 WHERE id = ?", found)
        return found

    def line(self, **values: Any) -> None:
        """Keep a line."""
        names = ", ".join(values)
        self.do(f"INSERT INTO lines ({names}) VALUES ({', '.join('?' * len(values))})", *values.values())

    def fault(self, line: int, sort: str, reason: str, detail: str = "") -> None:
        """Note why a line was not used. sort: broken (it cannot be read) or refused (it makes no training row)."""
        self.do("INSERT INTO faults VALUES (?, ?, ?, ?)", line, sort, reason, detail)

    def do(self, sql: str, *values: Any) -> None:
        self.connection.execute(sql, values)

    def one(self, sql: str, *values: Any) -> Row | None:
        """The first row, or None."""
        return self.connection.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Row]:
        """All rows of a query that has few."""
        return self.connection.execute(sql, values).fetchall()

    def count(self, sql: str, *values: Any) -> int:
        """The one number that a query returns; 0 for NULL."""
        return self.connection.execute(sql, values).fetchone()[0] or 0

    def pages(self, sql: str, column: str, **values: Any) -> Iterator[Row]:
        """The rows of a query with `{after}` in its WHERE, in order of `column`; a page at a time, so that rows may change meanwhile."""
        last = -1
        while True:
            page = self.connection.execute(
                sql.format(after=f"{column} > :after") + f" ORDER BY {column} LIMIT {PAGE}", {**values, "after": last}
            ).fetchall()
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1][column.rpartition(".")[2]]

    def _insert(self, sql: str, *values: Any) -> int:
        row = self.connection.execute(sql, values).lastrowid
        assert row is not None
        return row
