"""A DuckDB database that a query can only read: the guards around the engine inside a worker.

| guard                                                        | against                                                         |
|--------------------------------------------------------------|-----------------------------------------------------------------|
| one statement that is a SELECT, by DuckDB's own parser       | ATTACH, COPY, SET, PRAGMA, INSTALL, stacked statements          |
| the functions in its tree (duckdb_query.py)                  | files, memory addresses, sequences, text that is run as a query |
| external access off, no extensions, configuration locked     | files, network, native code                                     |
| file opened read-only; a read-only transaction, rolled back  | writes, also those behind WITH … RETURNING                      |
| one thread, no temporary files                               | processor time and disk outside the limits                      |
| `memory_limit`, and behind it RLIMIT_AS, since it is no limit| memory                                                          |
| rows and bytes counted as they stream                        | huge results                                                    |
| interrupt at the processor-time limit, SIGPROF behind it     | endless queries                                                 |
"""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from typing import Any

from prefkit.sandbox.duckdb_query import Inspector, Query
from prefkit.sandbox.sql_tokens import OTHER_STATEMENTS, leading_word
from prefkit.sandbox.sql_wire import TooDeep, encode, size

MEMORY_LIMIT = "256MB"
CONFIGURATION = {
    "allow_community_extensions": "false",
    "async_threads": "0",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": MEMORY_LIMIT,
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
}
LOCK = (
    "SET TimeZone = 'UTC'",
    "SET enable_progress_bar_print = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Run once the data is there; nothing can be set afterwards."""
_STATEMENTS = OTHER_STATEMENTS | {"COPY", "SET", "RESET", "CALL", "LOAD", "INSTALL", "EXPORT", "IMPORT", "USE", "PREPARE", "EXECUTE",
    "DEALLOCATE", "TRUNCATE", "MERGE", "CHECKPOINT", "FORCE", "SHOW", "DESCRIBE", "SUMMARIZE", "COMMENT", "UPDATE"}  # fmt: skip
_CHUNK = 64
_KEPT_QUERIES = 4096
_TEXT_TYPES = {"BIT": "bits", "JSON": "json", "BIGNUM": "number", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp", "TIMESTAMP_NS": "timestamp", "TIMESTAMP WITH TIME ZONE": "timestamptz"}  # fmt: skip
"""Types whose values may come as text, and what that text is."""


class GuardedDuckdb:
    """One open database. `run` may be called any number of times: a query leaves nothing behind that the next could meet."""

    def __init__(self, connection: Any, faithful: bool = True) -> None:
        """Takes a connection that holds its data, and locks its configuration."""
        for setting in LOCK:
            connection.execute(setting)
        self.faithful = faithful
        self._connection = connection
        self._inspector = Inspector(connection)
        # A file is read-only as it is; data in memory is so for the length of a transaction.
        self._writable = not connection.execute(
            "SELECT readonly FROM duckdb_databases() WHERE database_name = current_database()"
        ).fetchone()[0]
        self._known: OrderedDict[str, Query | dict[str, Any]] = OrderedDict()
        self._stored = self._read_stored()

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """Stop the query that runs; called by another thread."""
        self._connection.interrupt()

    def run(self, sql: str, rows: int, bytes_: int, truncate: bool) -> dict[str, Any]:
        """Execute one query. Returns {"status": "ok", columns, types, rows, uses, …} or {"status": …, "reason": …}.

        Raises MemoryError alone. A status of "interrupted" says that `interrupt` was called.
        """
        query = self._inspect(sql)
        if isinstance(query, dict):
            return query
        denied, uses = query.denied, set(query.uses)
        for name in query.names & self._stored.keys():
            denied = denied or self._stored[name].denied
            uses |= self._stored[name].uses
        if denied:
            return {"status": "policy", "reason": denied}
        try:
            if self._writable:
                self._connection.execute("BEGIN TRANSACTION READ ONLY")
            result = self._fetch(sql, rows, bytes_, truncate)
        except Exception as error:
            return failure(error)
        finally:
            if self._writable:
                with contextlib.suppress(Exception):
                    self._connection.execute("ROLLBACK")
        if uses and result["status"] == "ok":
            result["uses"] = sorted(uses)
        return result

    def _inspect(self, sql: str) -> Query | dict[str, Any]:
        """What the query does, or the result that says why it is not run."""
        known = self._known.get(sql)
        if known is None:
            known = self._known[sql] = self._look(sql)
            if len(self._known) > _KEPT_QUERIES:
                self._known.popitem(last=False)
        return known

    def _look(self, sql: str) -> Query | dict[str, Any]:
        word = leading_word(sql)
        if word in _STATEMENTS:
            return {"status": "policy", "reason": f"not a query: {word}"}
        try:
            sql.encode()
            statements = self._connection.extract_statements(sql)
            if not statements:
                return {"status": "error", "reason": "empty query"}
            if len(statements) > 1:
                return {"status": "policy", "reason": "more than one statement"}
            kind = statements[0].type.name
            if kind == "MULTI":
                return {"status": "policy", "reason": "not a query: PIVOT without a list of values (IN)"}
            if kind != "SELECT":
                return {"status": "policy", "reason": f"not a query: {kind.partition('_')[0]}"}
            if statements[0].named_parameters:
                return {"status": "error", "reason": "the query has parameters"}
            return self._inspector.read(sql)
        except RecursionError:
            return {"status": "error", "reason": "too deeply nested"}
        except UnicodeEncodeError:
            return {"status": "error", "reason": "syntax error: not UTF-8"}
        except ValueError as error:
            return {"status": "error", "reason": str(error)[:300]}
        except Exception as error:
            return failure(error)

    def _fetch(self, sql: str, most_rows: int, most_bytes: int, truncate: bool) -> dict[str, Any]:
        cursor = self._connection.execute(sql)
        types = [str(column[1]) for column in cursor.description]
        result: dict[str, Any] = {"status": "ok", "columns": [column[0] for column in cursor.description], "types": types, "rows": []}
        kept, used = result["rows"], 0
        texts = [_TEXT_TYPES.get(name) for name in types]
        while chunk := cursor.fetchmany(_CHUNK):
            for row in chunk:
                values = [{text: value} if text and type(value) is str else encode(value) for text, value in zip(texts, row, strict=True)]
                used += sum(map(size, values))
                if len(kept) >= most_rows or used > most_bytes:
                    if truncate:
                        result["truncated"] = True
                        return result
                    what = "rows" if len(kept) >= most_rows else "bytes"
                    return {"status": "limit", "reason": f"limit: {what} (more than {most_rows if what == 'rows' else most_bytes})"}
                kept.append(values)
        return result

    def _read_stored(self) -> dict[str, Query]:
        """What the database's own views and macros do, with what they use in turn."""
        found: dict[str, Query] = {}
        views = self._connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
        macros = self._connection.execute(
            "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal AND function_type LIKE '%macro%'"
        ).fetchall()
        for name, text in [*views, *macros]:
            self._merge(found, str(name).lower(), self._read_definition(text or ""))
        changed = True
        while changed:
            before = sum(len(query.uses) + bool(query.denied) for query in found.values())
            for query in found.values():
                for used in query.names & found.keys():
                    query.uses |= found[used].uses
                    query.deny(found[used].denied)
            changed = before != sum(len(query.uses) + bool(query.denied) for query in found.values())
        return found

    @staticmethod
    def _merge(found: dict[str, Query], name: str, query: Query) -> None:
        known = found.setdefault(name, query)
        known.uses |= query.uses
        known.names |= query.names
        known.deny(query.denied)

    def _read_definition(self, text: str) -> Query:
        """A view's statement (the query stands behind one of its AS), a table macro's query, or a macro's expression."""
        starts = [0, *(match.end() for match in re.finditer(r"\bAS\b", text, re.IGNORECASE))]
        for candidate in [*(text[start:] for start in starts), f"SELECT {text}"]:
            with contextlib.suppress(Exception):
                return self._inspector.read(candidate)
        return Query()


def failure(error: Exception) -> dict[str, Any]:
    """The result that an exception of DuckDB stands for."""
    name, message = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or name == "OutOfMemoryException" or "bad_alloc" in message:
        return {"status": "limit", "reason": "limit: memory"}
    if name == "InterruptException":
        return {"status": "interrupted", "reason": "interrupted"}
    if isinstance(error, TooDeep):
        return {"status": "limit", "reason": f"limit: {message}"}
    if name in ("FatalException", "InternalException"):
        return {"status": "crash", "reason": f"the database engine failed: {_first_line(message)}"}
    if name == "PermissionException":
        return {"status": "policy", "reason": "reads files" if "file" in message or "director" in message else _first_line(message)}
    if "read-only mode" in message or "configuration has been locked" in message:
        return {"status": "policy", "reason": "not a query: writes" if "read-only" in message else "changes the configuration"}
    if "larger than 2^32" in message or "exceeds the maximum" in message.lower():
        return {"status": "limit", "reason": "limit: memory"}
    return {"status": "error", "reason": uniform(message)}


_UNIFORM = (
    (re.compile(r'syntax error at or near ("(?:[^"]|"")*")'), r"syntax error near \1"),
    (re.compile(r"syntax error at end of input"), "syntax error: incomplete input"),
    (re.compile(r'Referenced (?:column|table) "([^"]*)" not found'), r"no such column: \1"),
    (re.compile(r'Table "[^"]*" does not have a column named "([^"]*)"'), r"no such column: \1"),
    (re.compile(r"Table with name (.*?) does not exist"), r"no such table: \1"),
    (re.compile(r"(?:Scalar|Table|Aggregate|Macro)?[ \w]*Function with name (.*?) does not exist"), r"no such function: \1"),
    (re.compile(r'Ambiguous reference to column name "([^"]*)"'), r"ambiguous column name: \1"),
)


def uniform(message: str) -> str:
    """DuckDB's message in the words that failures are grouped by, whatever the engine."""
    for pattern, words in _UNIFORM:
        found = pattern.search(message)
        if found:
            return found.expand(words)[:300]
    return _first_line(message)


def _first_line(message: str) -> str:
    line = (message.strip().splitlines() or ["no message"])[0]
    return re.sub(r"^[A-Z]\w*(?: \w+)* Error: ", "", line)[:300]
