"""Opens DuckDB databases inside a worker: a file, a database made from schema text, and either with its rows in another storage order.

A path that ends in `.sql` is schema text (CREATE TABLE …; INSERT …;), run in memory; every other path is a DuckDB file, opened read-only.
Rows in another order serve the same end as in sqlite_shadow.py: a query whose result changes with them has no one right answer.
"""

from __future__ import annotations

import os
import re
from typing import Any

from prefkit.sandbox.duckdb_guard import CONFIGURATION, GuardedDuckdb
from prefkit.sandbox.duckdb_query import CLOCK, CLOCK_WORDS, RANDOM
from prefkit.sandbox.sql_tokens import tokenize

try:
    import duckdb
except ImportError as error:  # the extra `duckdb` is not installed
    raise ImportError("the DuckDB engine is missing: pip install 'prefkit[duckdb]'") from error

MAX_SIZE = 16 << 20
"""Largest file, in bytes, of which a copy in another order is made."""
ORDERS = {"forward": "rowid", "reverse": "rowid DESC", "mixed": "(rowid * 7919 + 13) % 10007, rowid"}

_SCRIPT = frozenset(
    {"CREATE", "CREATE_FUNC", "INSERT", "UPDATE", "DELETE", "ALTER", "DROP", "SELECT", "TRANSACTION", "MERGE_INTO", "ANALYZE"}
)
_SOURCE = "prefkit_source"
_NO_RESULT = {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval"}


class SchemaError(Exception):
    """A file that cannot be read, or schema text that fails or does not give the same database each time."""


def open_database(path: str, order: str = "") -> GuardedDuckdb:
    """`order`: "" for the rows as they are, or a key of ORDERS. Raises SchemaError, or the engine's own error."""
    if order:
        return _open_shadow(path, order)
    if path.endswith(".sql"):
        connection = build(_read_script(path))
    else:
        _check_file(path)
        connection = duckdb.connect(path, read_only=True, config=dict(CONFIGURATION))
    return _guarded(connection)


def build(script: str) -> Any:
    """Run schema text in memory; returns the connection. Raises SchemaError with DuckDB's message where it fails."""
    connection = _in_memory()
    connection.execute("SET enable_external_access=false")
    try:
        clock_defaults = _run_script(connection, script)
        if clock_defaults:
            _check_same(connection, script, clock_defaults)
    except BaseException:
        connection.close()
        raise
    return connection


def _guarded(connection: Any, faithful: bool = True) -> GuardedDuckdb:
    try:
        return GuardedDuckdb(connection, faithful)
    except BaseException:
        connection.close()
        raise


def _in_memory() -> Any:
    """An empty database that may still attach a file."""
    return duckdb.connect(":memory:", config={key: value for key, value in CONFIGURATION.items() if key != "enable_external_access"})


def _check_file(path: str) -> None:
    try:
        with open(path, "rb") as file:
            head = file.read(12)
    except OSError as error:
        raise SchemaError(f"{error.strerror or error}") from error
    if head[8:12] != b"DUCK":
        raise SchemaError("not a DuckDB database")
    if os.path.exists(path + ".wal") and os.path.getsize(path + ".wal"):
        raise SchemaError("unfinished writes stand in its .wal: close the program that writes it")


def _read_script(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(str(error)) from error


def _run_script(connection: Any, script: str) -> list[str]:
    """Run the statements; returns those that make tables whose columns take the clock or random numbers as a default."""
    changing = []
    try:
        for statement in connection.extract_statements(script):
            kind, words = statement.type.name, _words(statement.query)
            if kind not in _SCRIPT or "SECRET" in words:
                raise SchemaError(f"schema fails: statement not allowed: {kind.partition('_')[0]}")
            if _unstable(statement.query):
                if kind == "CREATE" and not words & {"VIEW", "MACRO", "FUNCTION"}:
                    changing.append(statement.query)
                if kind in ("INSERT", "UPDATE", "DELETE", "MERGE_INTO") or (kind == "CREATE" and "TABLE" in words and "SELECT" in words):
                    raise SchemaError("schema fails: its rows depend on the clock or on random numbers")
            connection.execute(statement.query)
    except duckdb.Error as error:
        raise SchemaError(f"schema fails: {str(error).splitlines()[0][:300]}") from error
    return changing


def _check_same(connection: Any, script: str, statements: list[str]) -> None:
    """Refuse a schema whose rows come out differently when it is run again."""
    again = _in_memory()
    try:
        again.execute("SET enable_external_access=false")
        _run_script(again, script)
        for table in {name for statement in statements for name in _created(statement)}:
            query = f"SELECT * FROM {table}"
            if connection.execute(query).fetchall() != again.execute(query).fetchall():
                raise SchemaError("schema fails: its rows depend on the clock or on random numbers")
    finally:
        again.close()


def _created(statement: str) -> list[str]:
    """The name of the table that a CREATE TABLE makes, as it is written."""
    found = re.match(
        r'\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?((?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))*)',
        statement,
        re.IGNORECASE,
    )
    return [found[1]] if found else []


def _words(sql: str) -> set[str]:
    return {token.upper for token in tokenize(sql) if token.kind == "word"}


def _unstable(sql: str) -> bool:
    """Whether a function that reads the clock or draws numbers is called."""
    tokens = tokenize(sql)
    for i, token in enumerate(tokens):
        name = token.text.lower()
        called = i + 1 < len(tokens) and tokens[i + 1].text == "("
        if token.kind == "word" and (name in CLOCK_WORDS or (called and name in (CLOCK | RANDOM | _NO_RESULT) and name != "nextval")):
            return True
    return False


def _open_shadow(path: str, order: str) -> GuardedDuckdb:
    """The same tables with their rows stored in another order; the views and macros with them.

    `faithful` is False where something could not be carried over, so that it may answer differently for another reason than order.
    """
    connection = _in_memory()
    try:
        if path.endswith(".sql"):
            connection.execute("SET enable_external_access=false")
            connection.execute(f"ATTACH ':memory:' AS {_SOURCE}")
            connection.execute(f"USE {_SOURCE}")
            _run_script(connection, _read_script(path))
            connection.execute("USE memory")
        else:
            _check_file(path)
            if os.path.getsize(path) > MAX_SIZE:
                raise SchemaError(f"larger than {MAX_SIZE} bytes")
            connection.execute(f"ATTACH {_text(path)} AS {_SOURCE} (READ_ONLY)")
            connection.execute("SET enable_external_access=false")
        faithful = _copy(connection, order)
        connection.execute(f"DETACH {_SOURCE}")
    except BaseException:
        connection.close()
        raise
    return _guarded(connection, faithful)


def _copy(connection: Any, order: str) -> bool:
    listed = "SELECT {} FROM {} WHERE database_name = '" + _SOURCE + "' AND NOT internal ORDER BY ALL"
    for (schema,) in connection.execute(listed.format("schema_name", "duckdb_schemas()")).fetchall():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS memory.{_name(schema)}")
    for schema, table in connection.execute(listed.format("schema_name, table_name", "duckdb_tables()")).fetchall():
        place = f"{_name(schema)}.{_name(table)}"
        connection.execute(f"CREATE TABLE memory.{place} AS SELECT * FROM {_SOURCE}.{place} ORDER BY {ORDERS[order]}")
    macros = listed.format("schema_name, function_name, function_type, parameters, macro_definition", "duckdb_functions()")
    waiting = [_macro(*row) for row in connection.execute(macros).fetchall() if "macro" in row[2]]
    waiting += [sql for (sql,) in connection.execute(listed.format("sql", "duckdb_views()")).fetchall()]
    while waiting:  # a view may read another one that comes later
        left = [sql for sql in waiting if not _runs(connection, sql)]
        if len(left) == len(waiting):
            return False
        waiting = left
    return True


def _macro(schema: str, name: str, kind: str, parameters: list[str], definition: str) -> str:
    table = "TABLE " if kind == "table_macro" else ""
    return f"CREATE MACRO {_name(schema)}.{_name(name)}({', '.join(map(_name, parameters))}) AS {table}{definition}"


def _runs(connection: Any, sql: str) -> bool:
    try:
        connection.execute(sql)
    except duckdb.Error:
        return False
    return True


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
