"""Databases made in memory inside a worker: the same rows in another storage order, and a file's image built from schema text.

A query whose result changes when rows are stored in another order has no one right answer: LIMIT cuts through ties, a column stands
bare beside an aggregate, text is joined in no fixed order. Running it on shadows finds all of these without reading the query.
"""

from __future__ import annotations

import sqlite3

from prefkit.sandbox.sql_tokens import tokenize
from prefkit.sandbox.sqlite_guard import HEAP, GuardedDatabase, read_only_uri

MAX_SIZE = 16 << 20
"""Largest database, in bytes, of which shadows are made, and largest image that is built from schema text."""

ORDERS = {"forward": "prefkit_row", "reverse": "prefkit_row DESC", "mixed": "(prefkit_row * 7919 + 13) % 10007, prefkit_row"}
"""How rows are stored in each shadow: as in the file, last first, and shuffled in a fixed way."""

_WRITES = frozenset({9, 18, 20, 21, 23, 31, 33, *range(1, 9), *range(10, 18), 22, 26, 27, 28, 29, 30, 32})
"""What schema text may do: every authorizer action except ATTACH, DETACH and PRAGMA."""
_HARMLESS_PRAGMAS = frozenset({"foreign_keys", "encoding", "journal_mode", "synchronous", "user_version", "page_size", "auto_vacuum"})


def open_shadow(path: str, order: str) -> GuardedDatabase:
    """A copy of the database in `path` in memory: tables without keys and indexes, their rows stored in `order` (a key of ORDERS).

    `faithful` is False where the copy may answer differently for another reason than order (collations, virtual tables).
    Raises sqlite3.Error where it cannot be made.
    """
    target = sqlite3.connect("file::memory:", uri=True, isolation_level=None, cached_statements=0)
    try:
        target.execute("PRAGMA temp_store=2")
        target.execute("ATTACH ? AS source", (read_only_uri(path),))
        size = target.execute("PRAGMA source.page_count").fetchone()[0] * target.execute("PRAGMA source.page_size").fetchone()[0]
        if size > MAX_SIZE:
            raise sqlite3.OperationalError(f"larger than {MAX_SIZE} bytes")
        target.execute("BEGIN")
        faithful = _copy(target, order)
        target.execute("COMMIT")
        target.execute("DETACH source")
        return GuardedDatabase(target, faithful)
    except BaseException:
        target.close()
        raise


def _copy(target: sqlite3.Connection, order: str) -> bool:
    entries = target.execute("SELECT type, name, sql FROM source.sqlite_master WHERE sql IS NOT NULL").fetchall()
    faithful = True
    for kind, name, sql in entries:
        words = {token.upper for token in tokenize(sql) if token.kind == "word"}
        if kind == "table" and ("VIRTUAL" in words or "COLLATE" in words):
            faithful = False
        if kind == "table" and "VIRTUAL" not in words and not name.startswith("sqlite_"):
            _copy_table(target, name, order)
    for kind, _, sql in entries:
        if kind == "view":
            target.execute(sql)
    return faithful


def _copy_table(target: sqlite3.Connection, name: str, order: str) -> None:
    # hidden = 1 marks hidden columns of virtual tables; generated columns (2 and 3) are copied as plain ones.
    columns = [(_quote(row[1]), _affinity(row[2])) for row in target.execute(f"PRAGMA source.table_xinfo({_quote(name)})") if row[6] != 1]
    listed = ", ".join(column for column, _ in columns)
    target.execute(f"CREATE TABLE main.{_quote(name)} ({', '.join(f'{column} {affinity}' for column, affinity in columns)})")
    numbered = f"SELECT {listed}, row_number() OVER () FROM source.{_quote(name)}"
    inserted = f"INSERT INTO main.{_quote(name)} SELECT {listed} FROM numbered ORDER BY {ORDERS[order]}"
    target.execute(f"WITH numbered({listed}, prefkit_row) AS ({numbered}) {inserted}")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _affinity(declared: str) -> str:
    """A declared type of the same affinity (https://sqlite.org/datatype3.html, section 3.1) that brings no constraint with it."""
    upper = declared.upper()
    if "INT" in upper:
        return "INT"
    if any(part in upper for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in upper or not upper:
        return "BLOB"
    return "REAL" if any(part in upper for part in ("REAL", "FLOA", "DOUB")) else "NUM"


def build_image(script: str) -> bytes:
    """Run schema text (CREATE TABLE …; INSERT …;) in memory and return the bytes of the database file that it makes.

    ATTACH, unsafe PRAGMAs and extensions are refused. Raises sqlite3.Error with SQLite's message where the text fails.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for pragma in (f"hard_heap_limit={HEAP}", "temp_store=2", "trusted_schema=0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(f"PRAGMA max_page_count={MAX_SIZE // connection.execute('PRAGMA page_size').fetchone()[0]}")
        connection.set_authorizer(_authorize_build)
        connection.executescript(script)
        connection.set_authorizer(None)
        return connection.serialize()
    finally:
        connection.close()


def _authorize_build(action: int, first: str | None, second: str | None, _database: str | None, _view: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() == "load_extension" else sqlite3.SQLITE_OK
    allowed = action in _WRITES or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _HARMLESS_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
