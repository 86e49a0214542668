"""The SQL engines there are: where their databases are, how a query reaches each, what its values are, and what a gold's text says in its
dialect. All that differs between engines stands in this table; what judges is one path.

| engine   | databases                                     | worker                     | rows in another order               |
|----------|-----------------------------------------------|----------------------------|-------------------------------------|
| sqlite   | files, schema text                            | sqlite_worker, tier P      | copies in memory (sqlite_shadow.py) |
| duckdb   | files, schema text: copies in one folder      | duckdb_worker, tier A or B | copies in memory (duckdb_open.py)   |
| postgres | connection strings (sandbox/dsn.py)           | postgres_worker, tier P    | tables behind an ordered subquery   |

A worker of PostgreSQL runs nothing of the answer itself, and has to reach the server: it needs no isolation, and would work in none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from sqlite3 import sqlite_version

from prefkit.sandbox.job import Result, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.sqlite_shadow import ORDERS
from prefkit.verify import gold_text, sql_dialects, sql_values
from prefkit.verify.compare import Expected, Row, difference
from prefkit.verify.gold_text import GoldText
from prefkit.verify.sql_jobs import DuckdbJob, PostgresJob
from prefkit.verify.sql_places import DuckdbPlaces, Places, PostgresPlaces, SqlitePlaces

Align = Callable[[list[Row], list[Row]], tuple[list[Row], list[Row]]]


@dataclass(frozen=True, slots=True)
class Engine:
    """orders: keys for SqlJob.order, "forward" first. read_gold, key_columns, with_columns: those of gold_text.py, in the engine's dialect.

    places: what finds databases. align: both sides of a comparison with one value for what is equal within the tolerance inside a
    value. show: a value that stands as bytes, as a person reads it. library: what runs it here, and whose version is part of a verdict.
    """

    name: str
    job: type[SqlJob]
    orders: tuple[str, ...]
    read_gold: Callable[[str], GoldText]
    key_columns: Callable[[GoldText, list[str]], tuple[list[int | None], list[str]]]
    with_columns: Callable[[GoldText, list[str]], list[str]]
    places: type[Places]
    align: Align
    show: Callable[[bytes], str]
    library: str

    @property
    def versions(self) -> dict[str, str]:
        """Of the library; "" where it is not installed. The version of a PostgreSQL server stands in its fingerprint."""
        try:
            return {self.library: sqlite_version if self.library == "sqlite" else version(self.library)}
        except PackageNotFoundError:
            return {self.library: ""}

    def difference(self, expected: Expected, result: Result, columns: str = "in_order") -> str | None:
        """compare.difference for a result of this engine."""
        wanted, rows = self.align(expected.rows, result.rows)
        if wanted is not expected.rows:
            expected = replace(expected, rows=wanted)
        return difference(expected, len(result.columns), rows, columns)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the queries of a check run. databases, folder: see the engine's job."""

    engine: Engine
    databases: tuple[tuple[str, str], ...]
    folder: str = ""

    def job(self, sql: str, limits: SqlLimits, order: str = "") -> SqlJob:
        return self.engine.job(sql, self.databases, limits, order, folder=self.folder)


def _as_they_are(expected: list[Row], rows: list[Row]) -> tuple[list[Row], list[Row]]:
    return expected, rows


def _hexadecimal(value: bytes) -> str:
    return f"x'{value[:20].hex()}'"


def _of_dialect(name: str, library: str, job: type[SqlJob], places: type[Places]) -> Engine:
    return Engine(
        name,
        job,
        tuple(sql_dialects.ORDERS),
        partial(sql_dialects.read_gold, dialect=name),
        partial(sql_dialects.key_columns, dialect=name),
        partial(sql_dialects.with_columns, dialect=name),
        places,
        sql_values.align,
        sql_values.show,
        library,
    )


ENGINES = {
    "sqlite": Engine(
        "sqlite",
        SqlJob,
        tuple(ORDERS),
        gold_text.read_gold,
        gold_text.key_columns,
        gold_text.with_columns,
        SqlitePlaces,
        _as_they_are,
        _hexadecimal,
        "sqlite",
    ),
    "duckdb": _of_dialect("duckdb", "duckdb", DuckdbJob, DuckdbPlaces),
    "postgres": _of_dialect("postgres", "psycopg", PostgresJob, PostgresPlaces),
}
