"""A connection to PostgreSQL on which a query can only read, within limits.

| guard                                                      | against                                                         |
|------------------------------------------------------------|-----------------------------------------------------------------|
| least-privilege role, refused otherwise (postgres_role.py) | everything that privileges decide: the last word                |
| extended protocol                                          | stacked statements: one by construction                         |
| DECLARE … CURSOR FOR                                       | the server's own grammar takes a query there and nothing else   |
| read-only transaction, rolled back; DISCARD ALL            | writes, and traces that the next query could meet               |
| the query's plan, views and inlined functions included     | volatile functions: settings, sequences, locks, files, sleeping |
| cancel at the time limit, then terminate, from outside     | endless queries, whatever they set                              |
| `client_connection_check_interval`, `statement_timeout`    | a query that outlives this process                              |
| rows and bytes counted as they stream                      | huge results                                                    |
| `temp_file_limit`, where the role may set it               | disk                                                            |

PostgreSQL 14 or later, reached without a pooler: settings go with the connection. A query's clock and random numbers are seen in its plan:
`EXPLAIN (VERBOSE)` spells functions out and does not run them. A text such as 'today' that stands in the query and not, as text, in its
plan has become a date.
"""

from __future__ import annotations

import contextlib
import select
import time
from typing import Any

from prefkit.errors import DatabaseError
from prefkit.sandbox.dsn import scrub
from prefkit.sandbox.postgres_plan import Plan, read_plan
from prefkit.sandbox.postgres_role import Role, look
from prefkit.sandbox.postgres_text import NAMES, TypeInfo, decode
from prefkit.sandbox.sql_tokens import leading_word
from prefkit.sandbox.sql_wire import TooDeep, size

try:
    import psycopg
    from psycopg import pq
except ImportError as error:  # the extra `postgres` is not installed
    raise ImportError("the PostgreSQL client is missing: pip install 'prefkit[postgres]'") from error

SETTINGS = {
    "DateStyle": "ISO,YMD", "IntervalStyle": "iso_8601", "TimeZone": "UTC", "bytea_output": "hex", "extra_float_digits": "1",
    "lc_monetary": "C", "client_encoding": "UTF8", "standard_conforming_strings": "on", "default_transaction_read_only": "on",
    "client_connection_check_interval": "500", "idle_in_transaction_session_timeout": "60000", "lock_timeout": "5000", "jit": "off",
    "max_parallel_workers_per_gather": "0", "cursor_tuple_fraction": "1", "synchronize_seqscans": "off",
}  # fmt: skip
CONNECT_S = 10
GRACE_S = 1.0
"""Seconds after the cancel in which the server may stop by itself; then its process is terminated."""
TEMP_FILES = "256MB"
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_ROWS = (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_OK)
_PASSING = ("starting up", "shutting down", "too many", "recovery mode", "remaining connection slots")
_VOLATILE = "SELECT DISTINCT proname FROM pg_catalog.pg_proc WHERE provolatile = 'v' AND prokind = 'f'"
_TYPE = """
SELECT t.typname, t.typtype, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END, t.typbasetype, t.typdelim,
  (SELECT pg_catalog.string_agg(a.atttypid::text, ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_catalog.pg_type t WHERE t.oid = {oid}
"""


class ServerError(Exception):
    """An error of the server. code: SQLSTATE."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Late(Exception):
    """The time limit has passed; the server was told to stop."""


class Lost(Exception):
    """The connection is gone."""


class GuardedPostgres:
    """One connection. `run` may be called any number of times; after Lost, make a new one."""

    def __init__(self, dsn: str, own_settings: bool = True) -> None:
        """Connect and look at the role. Raises DatabaseError where that fails or the role could do harm; the message holds no secret."""
        self._dsn = dsn
        self._types: dict[int, TypeInfo] = {}
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items()) if own_settings else ""
        try:
            self._connection = psycopg.connect(
                str.__str__(dsn), autocommit=True, connect_timeout=CONNECT_S, options=options, application_name="prefkit"
            )
        except psycopg.ProgrammingError as error:
            raise DatabaseError("the PostgreSQL connection string (DSN) cannot be read") from error
        except psycopg.Error as error:
            message = scrub(" ".join(str(error).split()), dsn)
            refused = "FATAL:" in message and not any(sign in message for sign in _PASSING)
            raise DatabaseError(
                f"PostgreSQL refuses the DSN: {message}" if refused else f"no connection to PostgreSQL: {message}"
            ) from error
        self._pg = self._connection.pgconn
        self._deadline = time.monotonic() + 30.0
        try:
            self.role: Role = look(self._rows)
            if self.role.problems:
                raise DatabaseError(self.role.refusal())
            self.version = str(self._rows("SHOW server_version")[0][0])
            self._volatile = frozenset(str(row[0]) for row in self._rows(_VOLATILE))
            self._limit_files = self._may_limit_files()
        except (ServerError, Late, Lost) as error:
            self.close()
            raise DatabaseError(f"PostgreSQL: {scrub(str(error), dsn)}") from error
        except DatabaseError:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def run(self, sql: str, timeout_s: float, rows: int, bytes_: int, truncate: bool) -> dict[str, Any]:
        """Execute one query. Returns {"status": "ok", columns, types, rows, uses, …} or {"status": …, "reason": …}.

        `timeout_s` counts on the wall clock. Raises Lost where the connection is gone, MemoryError.
        """
        word = leading_word(sql)
        if word and word not in _QUERIES:
            return {"status": "policy", "reason": f"not a query: {word}"} if word in STATEMENTS else _syntax_error(word)
        if "\0" in sql or not _encodable(sql):
            return {"status": "error", "reason": "syntax error: " + ("null character" if "\0" in sql else "not UTF-8")}
        self._deadline = time.monotonic() + timeout_s
        try:
            plan = self._begin(sql, timeout_s)
            if plan.denied:
                return {"status": "policy", "reason": plan.denied}
            result = self._fetch(rows, bytes_, truncate)
            if plan.uses and result["status"] == "ok":
                result["uses"] = sorted(plan.uses)
            return result
        except Late:
            return {"status": "timeout", "reason": "time limit: wall clock"}
        except ServerError as error:
            return failure(error, sql)
        except TooDeep as error:
            return {"status": "limit", "reason": f"limit: {error}"}
        finally:
            self._clean()

    def query(self, sql: str, timeout_s: float) -> dict[str, Any]:
        """Rows as text of a fixed query of our own: {"status": "ok", "rows": …} or {"status": …, "reason": …}."""
        self._deadline = time.monotonic() + timeout_s
        try:
            self._send("BEGIN READ ONLY")
            return {"status": "ok", "rows": self._rows(sql)}
        except Late:
            return {"status": "timeout", "reason": "time limit: wall clock"}
        except ServerError as error:
            return failure(error, sql)
        finally:
            self._clean()

    def _begin(self, sql: str, timeout_s: float) -> Plan:
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {int(1000 * (timeout_s + 2 * GRACE_S))}"
        self._send(f"{begin}; SET LOCAL temp_file_limit = '{TEMP_FILES}'" if self._limit_files else begin, own=True)
        self._send(f"DECLARE prefkit_cursor NO SCROLL CURSOR FOR {sql}")
        explained = self._rows(f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {sql}")
        return read_plan(str(explained[0][0]), sql, self._volatile)

    def _fetch(self, most_rows: int, most_bytes: int, truncate: bool) -> dict[str, Any]:
        raw: list[list[bytes | None]] = []
        used, over = 0, ""
        columns: list[tuple[str, int]] = []
        self._start(f"FETCH FORWARD {most_rows + 1} FROM prefkit_cursor", single_row=True)
        while (reply := self._next()) is not None:
            if not columns:
                columns = [((reply.fname(i) or b"").decode(errors="replace"), reply.ftype(i)) for i in range(reply.nfields)]
            for number in range(reply.ntuples):
                row = [reply.get_value(number, i) for i in range(reply.nfields)]
                used += sum(len(value) if value else 8 for value in row)
                over = over or ("rows" if len(raw) >= most_rows else "bytes" if used > most_bytes else "")
                if not over:
                    raw.append(row)
            if over == "bytes" and reply.status == pq.ExecStatus.SINGLE_TUPLE:
                self._stop_reading()
                break
        if over and not truncate:
            return {"status": "limit", "reason": f"limit: {over} (more than {most_rows if over == 'rows' else most_bytes})"}
        result: dict[str, Any] = {"status": "ok", "columns": [name for name, _ in columns]}
        result["rows"] = [
            [None if value is None else decode(value.decode(), oid, self._look_up) for value, (_, oid) in zip(row, columns, strict=True)]
            for row in raw
        ]
        result["types"] = [NAMES.get(oid) or self._look_up(oid).name for _, oid in columns]
        if over:
            result["truncated"] = True
        if not truncate and sum(sum(map(size, row)) for row in result["rows"]) > 4 * most_bytes:
            return {"status": "limit", "reason": f"limit: bytes (more than {most_bytes})"}
        return result

    def _look_up(self, oid: int) -> TypeInfo:
        known = self._types.get(oid)
        if known is None:
            found = self._rows(_TYPE.format(oid=int(oid)))
            name, kind, element, base, delimiter, fields = found[0] if found else ("unknown", "b", "0", "0", ",", None)
            numbers = tuple(int(part) for part in (fields or "").split(",") if part)
            known = self._types[oid] = TypeInfo(str(name), str(kind), int(element or 0), int(base or 0), numbers, delimiter or ",")
        return known

    def _may_limit_files(self) -> bool:
        """Whether the role may set temp_file_limit (PostgreSQL 15: GRANT SET ON PARAMETER)."""
        try:
            self._send("BEGIN")
            self._send(f"SET LOCAL temp_file_limit = '{TEMP_FILES}'")
        except ServerError:
            return False
        finally:
            self._send("ROLLBACK")
        return True

    def _clean(self) -> None:
        """Undo all that the session may remember. Raises Lost where the server does not answer in time."""
        if self._connection.closed:
            return
        self._deadline = time.monotonic() + 5.0
        try:
            self._send("ROLLBACK")
            self._send("DISCARD ALL")
        except (ServerError, Late) as error:
            self.close()
            raise Lost("the connection could not be cleaned") from error

    def _rows(self, sql: str) -> list[tuple[str | None, ...]]:
        reply = self._send(sql)
        return [
            tuple(None if (value := reply.get_value(row, i)) is None else value.decode() for i in range(reply.nfields))
            for row in range(reply.ntuples)
        ]

    def _send(self, sql: str, own: bool = False) -> Any:
        """Run one statement and return its last result; of our `own`, with nothing of a query in it, more than one.

        Raises ServerError, Late, Lost.
        """
        self._start(sql, own=own)
        last = None
        while (reply := self._next()) is not None:
            last = reply
        return last

    def _start(self, sql: str, single_row: bool = False, own: bool = False) -> None:
        try:
            if own:
                self._pg.send_query(sql.encode())
            else:  # the extended protocol, which takes one statement
                self._pg.send_query_params(sql.encode(), None)
            if single_row:
                self._pg.set_single_row_mode()
        except psycopg.Error as error:
            raise Lost(scrub(str(error), self._dsn)) from error

    def _next(self) -> Any:
        """The next result of the statement that runs, or None at its end. Past the deadline the server is told to stop."""
        try:
            self._wait(self._deadline)
            reply = self._pg.get_result()
        except psycopg.Error as error:
            raise Lost(scrub(str(error), self._dsn)) from error
        except Late:
            self._stop()
            raise
        if reply is None or reply.status in (*_ROWS, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            return reply
        self._drain()
        code = reply.error_field(pq.DiagnosticField.SQLSTATE)
        message = (reply.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or reply.error_message or b"").decode(errors="replace")
        if code is None:
            if b"out of memory" in reply.error_message:
                raise MemoryError
            raise Lost(message.strip() or "connection lost")
        raise ServerError(code.decode(), message)

    def _wait(self, deadline: float) -> None:
        """Until a result is there. Raises Late at the deadline (seconds of time.monotonic), psycopg.Error where the connection breaks."""
        poller = select.poll()
        while True:
            unsent = self._pg.flush()
            if not unsent and not self._pg.is_busy():
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late
            poller.register(self._pg.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
            if poller.poll(min(1000.0, 1000 * left + 1)):
                self._pg.consume_input()

    def _stop_reading(self) -> None:
        """Give up the rest of a result."""
        self._stop()
        self._deadline = time.monotonic() + 5.0
        self._send("ROLLBACK")

    def _stop(self) -> None:
        """Cancel what runs, from outside; terminate the server's process where it does not heed. Raises Lost then."""
        with contextlib.suppress(psycopg.Error):
            self._pg.get_cancel().cancel()
        try:
            self._drain(time.monotonic() + GRACE_S)
        except (Late, psycopg.Error) as error:
            self._terminate()
            raise Lost("the server's process did not stop and was terminated") from error

    def _drain(self, deadline: float | None = None) -> None:
        while True:
            self._wait(deadline or self._deadline + GRACE_S)
            if self._pg.get_result() is None:
                return

    def _terminate(self) -> None:
        """End the server's process through another connection of the same role, and this connection with it."""
        with contextlib.suppress(psycopg.Error):
            other = psycopg.connect(str.__str__(self._dsn), autocommit=True, connect_timeout=CONNECT_S)
            with other:
                other.execute("SELECT pg_catalog.pg_terminate_backend(%s)", (self._pg.backend_pid,))
        self.close()


STATEMENTS = frozenset(
    {
        "ABORT", "ALTER", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "CLUSTER", "COMMENT", "COMMIT", "COPY", "CREATE", "DEALLOCATE",
        "DECLARE", "DELETE", "DISCARD", "DO", "DROP", "END", "EXECUTE", "EXPLAIN", "FETCH", "GRANT", "IMPORT", "INSERT", "LISTEN", "LOAD",
        "LOCK", "MERGE", "MOVE", "NOTIFY", "PREPARE", "REASSIGN", "REFRESH", "REINDEX", "RELEASE", "RESET", "REVOKE", "ROLLBACK",
        "SAVEPOINT", "SECURITY", "SET", "SHOW", "START", "TRUNCATE", "UNLISTEN", "UPDATE", "VACUUM", "ATTACH", "PRAGMA", "REPLACE",
    }
)  # fmt: skip
"""First words of what is no query."""


def _syntax_error(word: str) -> dict[str, Any]:
    return {"status": "error", "reason": f'syntax error near "{word.lower()}"'}


def _encodable(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


def failure(error: ServerError, sql: str) -> dict[str, Any]:
    """The result that an error of the server stands for; see postgres_errors.py."""
    from prefkit.sandbox.postgres_errors import result_of

    return result_of(error.code, str(error), sql)
