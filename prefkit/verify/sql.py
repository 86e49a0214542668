"""The SQL verifier: one answer against its accepted golds, by execution on every data instance.

| what happens                                               | status       | reason                                                |
|------------------------------------------------------------|--------------|-------------------------------------------------------|
| the engine is not installed, or not to be isolated         | REFUSED      | DuckDB is not installed; pip install 'prefkit[duckdb]' |
| the database is not to be had                              | UNVERIFIABLE | database not found: … / database cannot be read: …    |
| no gold can be used (see gold.py)                          | UNVERIFIABLE | gold fails: … / gold is empty … / gold is ambiguous … |
| no query in the answer (see extract.py)                    | WRONG        | no SQL in the answer                                  |
| the query writes, attaches, is a PRAGMA, is two statements | POLICY       | not a query: DELETE / more than one statement         |
| it reads the clock or random()                             | POLICY       | reads the clock / uses random()                       |
| the engine refuses it or fails                                | CRASH        | no such column: x / syntax error near "x" …           |
| it runs too long: SQLite by steps, DuckDB by the time of   | TIMEOUT      | time limit: steps / time limit: processor time        |
| the processor, PostgreSQL by the clock, twice              |              | time limit: wall clock                                |
| it or its result is too large                              | LIMIT        | limit: rows (more than 10000) / limit: memory …       |
| the result is a gold's on every instance (see compare.py)  | PASS         | same rows                                             |
| its shape is not                                           | WRONG        | wrong number of columns: 2, expected 1 / no rows /    |
|                                                            |              | wrong number of rows: 3, expected 5                   |
| its values are not, or their order                         | WRONG        | wrong rows / wrong order                              |
| the worker was lost again and again, or the server         | INFRA        | worker lost (…) / no connection to PostgreSQL: …      |

A reason that ends in `(data instance 2)` says that the first instance agreed. Feedback is made from the answer's own result alone: it
holds nothing of the gold, not even its shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from prefkit.errors import DataError
from prefkit.sandbox.job import Answer, Result
from prefkit.sandbox.limits import MAX_SQL
from prefkit.verify.databases import SchemaText
from prefkit.verify.gold import Gold
from prefkit.verify.sql_engines import ENGINES, Engine
from prefkit.verify.verdict import Judgement, Status, status_of

NO_SQL = "no SQL in the answer"
_SHOWN_ROWS, _SHOWN_CHARACTERS = 3, 40


@dataclass(frozen=True, slots=True)
class SqlCheck:
    """One answer to judge.

    answer: free model text. golds: accepted queries, any one suffices. databases: data instances of one schema, all must agree: paths of
    files or the SQL texts that make them (see `SchemaText`); for PostgreSQL connection strings (see sandbox.dsn.Dsn). timeout_s: time limit
    of one execution in seconds (see limits.SqlLimits). columns: "in_order" or "any_order". engine: a key of sql_engines.ENGINES.

    Raises DataError for an engine that there is not, and for schema text with PostgreSQL.
    """

    kind: ClassVar[str] = "sql"
    id: str
    answer: str
    golds: tuple[str, ...]
    databases: tuple[str | SchemaText, ...]
    timeout_s: float = 2.0
    columns: str = "in_order"
    engine: str = "sqlite"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise DataError(f"engine is one of {', '.join(ENGINES)}, not {self.engine!r}")
        if self.engine == "postgres" and any(isinstance(database, SchemaText) for database in self.databases):
            raise DataError("PostgreSQL takes connection strings, and no schema text")


def unusable(golds: list[Gold]) -> Judgement | None:
    """The judgement where no gold can be used: the task's fault, or the machine's."""
    if any(not gold.problem for gold in golds):
        return None
    lost = next((gold for gold in golds if gold.infra), None)
    if lost is not None:
        return Judgement(Status.INFRA, lost.problem)
    return Judgement(Status.UNVERIFIABLE, golds[0].problem if golds else "no gold")


def refused_before_running(sql: str | None) -> Judgement | None:
    """The judgement of an answer that is not worth a worker's time."""
    if sql is None:
        return Judgement(Status.WRONG, NO_SQL, "There is no SQL query in the answer.")
    if len(sql) > MAX_SQL:
        return Judgement(Status.LIMIT, f"limit: query longer than {MAX_SQL} characters", "The query is far too long.")
    return None


def judge(golds: list[Gold], answer: Answer, engine: Engine, columns: str = "in_order") -> Judgement:
    """Compare what came of the answer's query with the golds that can be used."""
    last = answer.last
    if last.status != "ok":
        reason = tidy_error(last.reason)
        return Judgement(status_of(last.status), reason, f"The query does not run: {reason}.")
    uses = {use for result in answer.results for use in result.uses}
    if uses:
        reason = "reads the clock" if "clock" in uses else "uses random()"
        return Judgement(Status.POLICY, reason, f"The query {reason}, so its result is not the same each time.")
    best = None
    for gold in golds:
        if gold.problem:
            continue
        found = _first_difference(gold, answer.results, engine, columns)
        if found is None:
            return Judgement(Status.PASS, "same rows")
        best = found if best is None or found[0] > best[0] else best
    assert best is not None, "judge needs a gold that can be used"
    agreed, reason = best
    where = f" (data instance {agreed + 1})" if agreed else ""
    return Judgement(Status.WRONG, reason + where, feedback_of(answer.results[0], engine.show, agrees_somewhere=agreed > 0))


def _first_difference(gold: Gold, results: list[Result], engine: Engine, columns: str) -> tuple[int, str] | None:
    """(data instance, what is wrong there) of the first that differs."""
    for i, (expected, result) in enumerate(zip(gold.instances, results, strict=True)):
        reason = engine.difference(expected, result, columns)
        if reason is not None:
            return i, reason
    return None


def tidy_error(message: str) -> str:
    """SQLite's error in the uniform words that failures are grouped by, whatever the version. Other engines' come in those words."""
    message = message.partition(" - should this be a string literal")[0]
    if message.endswith(": syntax error"):
        return "syntax error " + message.removesuffix(": syntax error")
    if message == "incomplete input" or message.startswith("unrecognized token"):
        return f"syntax error: {message}"
    if message.startswith("Incorrect number of bindings"):
        return "the query has parameters"
    if message.startswith("the query contains a null character"):
        return "syntax error: null character"
    return message


def feedback_of(result: Result, show: Callable[[bytes], str], agrees_somewhere: bool = False) -> str:
    """What came out, and what is odd about it, in words for the model. Says nothing that the query's own result does not hold.

    show: how a value that stands as bytes is read.
    """
    if agrees_somewhere:
        return "The query runs, but its result is right only by chance: on other data of the same tables it is wrong."
    rows, columns = result.rows, result.columns
    named = ", ".join(_cut(column) for column in columns[:8])
    if not rows:
        return f"The query runs, but its result is wrong. It returns no rows; columns: {named}."
    shape = f"{_count(len(rows), 'row')} of {_count(len(columns), 'column')} ({named})"
    parts = [f"The query runs, but its result is wrong. It returns {shape}"]
    shown = "; ".join("(" + ", ".join(_short(value, show) for value in row[:8]) + ")" for row in rows[:_SHOWN_ROWS])
    parts.append(f"{'first rows' if len(rows) > _SHOWN_ROWS else 'rows'}: {shown}")
    empty = [column for i, column in enumerate(columns) if all(row[i] is None for row in rows)]
    if empty:
        parts.append(f"every value of {', '.join(_cut(column) for column in empty[:4])} is NULL")
    different = len(set(rows))
    if different < len(rows):
        parts.append(f"only {different} of its rows {'is' if different == 1 else 'are'} different from each other")
    return "; ".join(parts) + "."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _short(value: object, show: Callable[[bytes], str]) -> str:
    """A value as SQL writes it, cut short."""
    if isinstance(value, bytes):
        return _cut(show(value))
    return _cut("NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
