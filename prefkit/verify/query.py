"""Run a query to see what it returns, under the guards that answers run under."""

from __future__ import annotations

from dataclasses import dataclass

from prefkit.sandbox.job import Result, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import tidy_error
from prefkit.verify.sql_places import SqlitePlaces
from prefkit.verify.sql_verifier import SqlVerifier
from prefkit.verify.verdict import Status, status_of

_MAX_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query returned. status is PASS where it ran; else reason says why not. truncated: there are more rows than were asked for."""

    columns: list[str]
    rows: list[tuple]
    status: Status
    reason: str
    truncated: bool = False


def query(scheduler: Scheduler, database: str, sql: str, timeout_s: float = 2.0, max_rows: int = 50) -> QueryResult:
    """Run one query on an SQLite file and return its first `max_rows` rows. It may read the clock. Its failure is a status."""
    if not scheduler.active:
        scheduler.look_again()
    verifier = scheduler.verifier(SqlVerifier.kind)
    assert isinstance(verifier, SqlVerifier) and isinstance(verifier.places, SqlitePlaces)
    found = verifier.places.look(database)
    if found.problem:
        return QueryResult([], [], Status.UNVERIFIABLE, found.problem)
    job = SqlJob(sql, ((found.place, found.stamp),), SqlLimits(timeout_s, max_rows, _MAX_BYTES, truncate=True))
    result: Result = scheduler.run(job).last
    if result.status == "ok":
        return QueryResult(result.columns, result.rows, Status.PASS, "", result.truncated)
    return QueryResult([], [], status_of(result.status), tidy_error(result.reason))
