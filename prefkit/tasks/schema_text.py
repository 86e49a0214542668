"""A database's schema as compact text for a prompt: one line a table, foreign keys as arrows, the values of columns that have few.

    orders: id, customer_id -> customers.id, order_date, status (open, shipped)

It is read from the SQLite files themselves, so that a user's own database needs no description. The text of a database is the same for
each of its questions and stands before the question, so its tokens are computed once for all of them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from prefkit.errors import DatabaseError

MAX_VALUES = 6
MAX_VALUE_LENGTH = 24
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATE = re.compile(r"\d{4}-")
_LIST_MARKS = re.compile(r"[,()']")


def connect(path: str | Path) -> sqlite3.Connection:
    """A read-only connection that leaves no lock or journal beside the file.

    Raises DatabaseError where the file is missing, is no database, or has rows that are not in it yet (a write-ahead log).
    """
    path = Path(path)
    if not path.is_file():
        raise DatabaseError(f"no database at {path}: name an existing SQLite file.")
    log = path.with_name(path.name + "-wal")
    if log.is_file() and log.stat().st_size:
        mend = f'close the program that writes to it, or run `sqlite3 {path.name} "PRAGMA wal_checkpoint(TRUNCATE)"`.'
        raise DatabaseError(f"{path} has rows that stand in {log.name} only; {mend}")
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.Error as error:
        raise DatabaseError(f"{path} is no SQLite database ({error}): name a file that `sqlite3 {path.name} .tables` can read.") from error
    return connection


def schema_text(databases: Sequence[str | Path], values: bool = True) -> str:
    """The schema of one database as text. `databases` are its data instances: their schemas agree, values are taken from all of them.

    Raises DatabaseError for a file that cannot be read or has no tables.
    """
    connections: list[sqlite3.Connection] = []
    try:
        connections += [connect(path) for path in databases]
        tables = table_names(connections[0])
        if not tables:
            raise DatabaseError(f"{databases[0]} has no tables: fill it first, or name another file.")
        return "\n".join(_table_line(connections, table, values) for table in tables)
    finally:
        for connection in connections:
            connection.close()


def table_names(connection: sqlite3.Connection) -> list[str]:
    """Tables in the order of their making, without SQLite's own and those that full-text tables keep for themselves."""
    listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    # Empty before SQLite 3.37, which has no table_list.
    shadows = {row[1] for row in connection.execute("PRAGMA table_list") if row[2] == "shadow"}
    return [name for (name,) in connection.execute(listed) if name not in shadows]


def _table_line(connections: list[sqlite3.Connection], table: str, values: bool) -> str:
    first = connections[0]
    targets = _targets(first, table)
    columns = []
    for _, name, kind, *_ in first.execute(f"PRAGMA table_info({quoted(table)})"):
        text = as_written(first, name, table)
        if name in targets:
            text += f" -> {targets[name]}"
        elif values and ("CHAR" in kind.upper() or "TEXT" in kind.upper() or not kind):
            few = _few_values(connections, table, name)
            text += f" ({', '.join(few)})" if few else ""
        columns.append(text)
    return f"{as_written(first, table)}: {', '.join(columns)}"


def _targets(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Foreign key column -> "table.column" that it points to. A key that names no column points to the parent's primary key."""
    targets = {}
    for _, place, parent, column, target, *_ in connection.execute(f"PRAGMA foreign_key_list({quoted(table)})"):
        if target is None:
            keys = {row[5]: row[1] for row in connection.execute(f"PRAGMA table_info({quoted(parent)})")}
            target = keys.get(place + 1)
        if target is not None:
            targets[column] = f"{as_written(connection, parent)}.{as_written(connection, target, parent)}"
    return targets


def _few_values(connections: list[sqlite3.Connection], table: str, column: str) -> list[str]:
    """The distinct texts of a column over all instances where they are few, short and no dates; else nothing."""
    found: set[str] = set()
    for connection in connections:
        query = f"SELECT DISTINCT {quoted(column)} FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL LIMIT {MAX_VALUES + 1}"
        try:
            rows = connection.execute(query).fetchall()
        except sqlite3.Error:  # text that is not UTF-8 cannot stand in a prompt
            return []
        if any(isinstance(value, bytes) for (value,) in rows):
            return []
        found.update(str(value) for (value,) in rows)
        if len(found) > MAX_VALUES:
            return []
    if any(len(value) > MAX_VALUE_LENGTH or not value.strip() or not value.isprintable() or _DATE.match(value) for value in found):
        return []
    # A value that holds a mark of the list stands as the string that a query would have.
    return ["'" + value.replace("'", "''") + "'" if _LIST_MARKS.search(value) else value for value in sorted(found)]


def quoted(name: str) -> str:
    """A name as SQL text, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def as_written(connection: sqlite3.Connection, name: str, table: str | None = None) -> str:
    """The name of a table, or of a column of `table`, as a query has to write it: in quotes where SQLite takes it no other way."""
    if _PLAIN.fullmatch(name):
        try:
            connection.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0" if table else f"SELECT 1 FROM {name} LIMIT 0")
            return name
        except sqlite3.Error:  # a reserved word
            pass
    return quoted(name)
