"""A database that a query can only read: the guards around SQLite inside a worker. Standard library only.

| guard                                   | against                                                            |
|-----------------------------------------|--------------------------------------------------------------------|
| `mode=ro&immutable=1`, `query_only`     | writes, journals and locks beside the file                          |
| authorizer allowlist                    | everything but SELECT, READ, FUNCTION, RECURSIVE; unsafe functions |
| progress handler                        | endless queries: a budget of VM steps, the same on every machine   |
| SQLITE_LIMIT_LENGTH 128 K               | work between two steps (a quadratic instr()), huge values          |
| `hard_heap_limit`, `temp_store=MEMORY`  | memory, and temporary files                                        |
| rows and bytes counted row by row       | huge results                                                       |
| SIGPROF, RLIMIT_CPU (process_guard)     | whatever does not come back                                        |
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from prefkit.sandbox.process_guard import MEMORY, max_resident
from prefkit.sandbox.sql_tokens import CLOCK_FUNCTIONS, DATE_FUNCTIONS, OTHER_STATEMENTS, RANDOM_FUNCTIONS, leading_word, reads_clock

LENGTH = 131_072
HEAP = 256 << 20
STEP_CHUNK = 20_000
"""VM steps between two looks at the budget: below a millisecond, and long enough that looking costs nothing."""

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LENGTH,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LENGTH,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_UNSAFE_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_log"})
_ACTIONS = {
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 8, 29), "CREATE"),
    **dict.fromkeys((10, 11, 12, 13, 14, 15, 16, 17, 30), "DROP"),
    9: "DELETE", 18: "INSERT", 19: "PRAGMA", 22: "BEGIN", 23: "UPDATE", 24: "ATTACH", 25: "DETACH", 26: "ALTER", 27: "REINDEX",
    28: "ANALYZE", 32: "SAVEPOINT",
}  # fmt: skip


class GuardedDatabase:
    """One open database. `run` may be called any number of times: a query leaves nothing behind that the next could meet."""

    def __init__(self, connection: sqlite3.Connection, faithful: bool = True) -> None:
        """Takes a connection that holds its data already, and closes it to everything but reading."""
        self.faithful = faithful
        self._connection = connection
        for pragma in ("query_only=1", "temp_store=2", "trusted_schema=0", f"hard_heap_limit={HEAP}", "cell_size_check=1"):
            connection.execute(f"PRAGMA {pragma}")
        # The tables of these modules come into being at first use through an UPDATE of the schema, which the authorizer would refuse.
        for module in ("json_each", "json_tree"):
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"SELECT 1 FROM {module}('[]')").fetchall()
        views = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall()
        self._clock_views = {name for name, sql in views if sql and reads_clock(sql)}
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        self._memory_start = max_resident()
        self._sql, self._denied, self._stopped, self._left = "", "", "", 0
        self._uses: set[str] = set()

    def close(self) -> None:
        self._connection.close()

    def run(self, sql: str, steps: int, rows: int, bytes_: int, truncate: bool) -> dict[str, Any]:
        """Execute one query. Returns {"status": "ok", columns, rows, uses, …} or {"status": …, "reason": …}; raises MemoryError alone.

        `steps` is the budget of VM steps; `rows` and `bytes_` cap the result. `uses` lists "clock" and "random" where they were read.
        """
        statement = leading_word(sql)
        if statement in OTHER_STATEMENTS:
            return {"status": "policy", "reason": f"not a query: {statement}"}
        self._sql, self._denied, self._stopped, self._left = sql, "", "", steps
        self._uses = set()
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._progress, min(STEP_CHUNK, steps))
        try:
            return self._fetch(rows, bytes_, truncate)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if "Could not decode to UTF-8" in str(error):
                return self._run_undecoded(rows, bytes_, truncate)
            return self._failure(error)

    def _fetch(self, most_rows: int, most_bytes: int, truncate: bool) -> dict[str, Any]:
        cursor = self._connection.execute(self._sql)
        try:
            if cursor.description is None:
                return {"status": "error", "reason": "empty query"}
            result: dict[str, Any] = {"status": "ok", "columns": [column[0] for column in cursor.description], "rows": []}
            kept, used, blobs = result["rows"], 0, False
            for row in cursor:
                for value in row:
                    kind = type(value)
                    used += len(value) if kind is str or kind is bytes else 8
                    blobs = blobs or kind is bytes
                if len(kept) >= most_rows or used > most_bytes:
                    if truncate:
                        result["truncated"] = True
                        break
                    what = "rows" if len(kept) >= most_rows else "bytes"
                    return {"status": "limit", "reason": f"limit: {what} (more than {most_rows if what == 'rows' else most_bytes})"}
                kept.append(row)
        finally:
            cursor.close()
        if blobs:
            result["blobs"] = True
        if self._uses:
            result["uses"] = sorted(self._uses)
        return result

    def _run_undecoded(self, rows: int, bytes_: int, truncate: bool) -> dict[str, Any]:
        """Once more for text that is not UTF-8: its bytes are kept as surrogates, so that equal stays equal and nothing else does."""
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            return self._fetch(rows, bytes_, truncate)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return self._failure(error)
        finally:
            self._connection.text_factory = str

    def _failure(self, error: Exception) -> dict[str, Any]:
        message = str(error)
        if self._stopped:
            status = "timeout" if self._stopped.startswith("time") else "limit"
            return {"status": status, "reason": self._stopped}
        if self._denied:
            return {"status": "policy", "reason": self._denied}
        if "one statement at a time" in message:
            return {"status": "policy", "reason": "more than one statement"}
        if "readonly database" in message:
            return {"status": "policy", "reason": "not a query: writes"}
        if "string or blob too big" in message:
            return {"status": "limit", "reason": f"limit: value longer than {LENGTH} bytes"}
        if "database or disk is full" in message or "disk I/O error" in message:
            return {"status": "limit", "reason": "limit: temporary storage"}
        if any(sign in message for sign in ("not a database", "malformed", "unable to open database")):
            return {"status": "database", "reason": message}
        return {"status": "error", "reason": message[:300]}

    def _progress(self) -> int:
        self._left -= STEP_CHUNK
        if self._left <= 0:
            self._stopped = "time limit: steps"
        elif max_resident() - self._memory_start > MEMORY:
            self._stopped = "limit: memory"
        return 1 if self._stopped else 0

    def _authorize(self, action: int, first: str | None, second: str | None, _database: str | None, view: str | None) -> int:
        if action in _READS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            if name in _UNSAFE_FUNCTIONS:
                self._denied = self._denied or f"function not allowed: {name}"
                return sqlite3.SQLITE_DENY
            if name in RANDOM_FUNCTIONS:
                self._uses.add("random")
            elif name in CLOCK_FUNCTIONS or (name in DATE_FUNCTIONS and (view in self._clock_views or reads_clock(self._sql))):
                self._uses.add("clock")
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and first == "data_version":
            return sqlite3.SQLITE_OK  # full-text tables read it
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":  # SQLite's own way to make pragma_table_info and its like
            self._denied = self._denied or "table function not allowed"
        self._denied = self._denied or f"not a query: {_ACTIONS.get(action, 'action ' + str(action))}"
        return sqlite3.SQLITE_DENY


def read_only_uri(path: str) -> str:
    """SQLite's URI of an absolute path, opened for reading without a lock, a journal or a write-ahead log."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode=ro&immutable=1"


def open_read_only(path: str) -> GuardedDatabase:
    """Open an SQLite file. Raises sqlite3.Error where it is missing or no database."""
    connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None, cached_statements=0)
    try:
        return GuardedDatabase(connection)
    except BaseException:
        connection.close()
        raise
