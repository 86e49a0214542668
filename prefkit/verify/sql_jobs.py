"""What the workers of DuckDB and PostgreSQL are asked to do, and what comes of it. SQLite's job stands in sandbox/job.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from prefkit.sandbox.job import Job, Result, SqlJob, as_line
from prefkit.verify import sql_dialects
from prefkit.verify.sql_values import canonical_rows

_OPEN_S = 15.0


@dataclass(slots=True, eq=False)
class DuckdbJob(SqlJob):
    """A query on DuckDB; its rows come back as canonical values (sql_values.py). databases: (name of a file in `folder`, stamp); one that
    ends in .sql holds schema text. `script` says whether schema text runs."""

    kind: ClassVar[str] = "duckdb"

    def wall_s(self) -> float:
        """As for SQLite, with room for opening the databases: a query that runs on is ended by the time of the processor."""
        return self.limits.wall_s(len(self.databases)) + _OPEN_S * max(1, len(self.databases))

    def read(self, raw: dict[str, Any]) -> Result:
        return typed_result(raw)


@dataclass(slots=True, eq=False)
class PostgresJob(SqlJob):
    """A query on PostgreSQL; its rows come back as canonical values. databases: (Dsn, fingerprint). The time limit is the wall clock's."""

    kind: ClassVar[str] = "postgres"

    def line(self) -> bytes:
        sql = (sql_dialects.reordered(self.sql, "postgres", self.order) or self.sql) if self.order else self.sql
        message = {"op": "run", "sql": sql, "databases": self.databases, "cpu": self.limits.timeout_s, "rows": self.limits.rows}
        return as_line(message | {"bytes": self.limits.bytes, "truncate": self.limits.truncate})

    def wall_s(self) -> float:
        return 15.0 + (self.limits.timeout_s + 8.0) * max(1, len(self.databases))

    def read(self, raw: dict[str, Any]) -> Result:
        result = typed_result(raw)
        result.faithful = not self.order
        return result


@dataclass(slots=True, eq=False)
class PostgresLook(Job):
    """What stands in PostgreSQL databases now: part of the key of verdicts on them."""

    kind: ClassVar[str] = "postgres"
    databases: tuple[tuple[str, str], ...]
    seconds: float = 20.0

    def line(self) -> bytes:
        return as_line({"op": "fingerprint", "databases": self.databases, "cpu": self.seconds})

    def wall_s(self) -> float:
        return 15.0 + (self.seconds + 8.0) * max(1, len(self.databases))

    def timeout_s(self) -> float:
        return self.seconds

    def read(self, raw: dict[str, Any]) -> Fingerprint:
        given = (raw["status"], raw.get("reason", ""), raw.get("fingerprint", ""), raw.get("server", ""), tuple(raw.get("notes", ())))
        return Fingerprint(*given)

    def failed(self, status: str, reason: str) -> Fingerprint:
        return Fingerprint(status, reason)


@dataclass(slots=True)
class Fingerprint:
    """status: ok, database (the role is refused, the DSN is wrong; `reason` says so), infra (no connection).

    hash: of schema and rows, "" where they are too many: such verdicts cannot be kept between runs. server: version. notes: on the role.
    """

    status: str
    reason: str = ""
    hash: str = ""
    server: str = ""
    notes: tuple[str, ...] = ()


def typed_result(raw: dict[str, Any]) -> Result:
    """A result of a worker whose values stand as in sandbox/sql_wire.py."""
    rows = raw.pop("rows", [])
    result = Result.read(raw)
    try:
        result.rows = canonical_rows(rows)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        return Result("infra", f"a result that cannot be read: {type(error).__name__}")
    return result
