"""The SQL engines there are: how a query reaches each, what comes back, and what a gold's text says in its dialect.

| engine   | databases                                      | worker                     | rows in another order               |
|----------|------------------------------------------------|----------------------------|-------------------------------------|
| sqlite   | files                                          | sqlite_worker, tier P      | copies in memory (sqlite_shadow.py) |
| duckdb   | files; a path ending in .sql holds schema text | duckdb_worker, tier A or B | copies in memory (duckdb_open.py)   |
| postgres | connection strings (sandbox/dsn.py)            | postgres_worker, tier P    | tables behind an ordered subquery   |

A worker of PostgreSQL runs nothing of the answer itself, and has to reach the server: it needs no isolation, and would work in none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from prefkit.sandbox.job import Job, Result, SqlJob, as_line
from prefkit.sandbox.sqlite_shadow import ORDERS
from prefkit.verify import gold_text, sql_dialects
from prefkit.verify.gold_text import GoldText
from prefkit.verify.sql_values import canonical_rows


@dataclass(slots=True, eq=False)
class DuckdbJob(SqlJob):
    """A query on DuckDB; its rows come back as canonical values (sql_values.py). `script` says whether schema text runs."""

    kind: ClassVar[str] = "duckdb"

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


@dataclass(frozen=True, slots=True)
class Engine:
    """orders: keys for SqlJob.order, "forward" first. The functions are those of gold_text.py, in the engine's dialect."""

    name: str
    job: type[SqlJob]
    orders: tuple[str, ...]
    read_gold: Callable[[str], GoldText]
    key_columns: Callable[[GoldText, list[str]], tuple[list[int | None], list[str]]]
    with_columns: Callable[[GoldText, list[str]], list[str]]


def _of_dialect(name: str, job: type[SqlJob]) -> Engine:
    return Engine(
        name,
        job,
        tuple(sql_dialects.ORDERS),
        partial(sql_dialects.read_gold, dialect=name),
        partial(sql_dialects.key_columns, dialect=name),
        partial(sql_dialects.with_columns, dialect=name),
    )


ENGINES = {
    "sqlite": Engine("sqlite", SqlJob, tuple(ORDERS), gold_text.read_gold, gold_text.key_columns, gold_text.with_columns),
    "duckdb": _of_dialect("duckdb", DuckdbJob),
    "postgres": _of_dialect("postgres", PostgresJob),
}


def typed_result(raw: dict[str, Any]) -> Result:
    """A result of a worker whose values stand as in sandbox/sql_wire.py."""
    rows = raw.pop("rows", [])
    result = Result.read(raw)
    try:
        result.rows = canonical_rows(rows)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        return Result("infra", f"a result that cannot be read: {type(error).__name__}")
    return result
