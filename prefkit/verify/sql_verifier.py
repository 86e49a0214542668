"""The SQL verifier as the scheduler drives it: find or build the databases, check the golds, run the answer's query, judge.

There is one for each engine, and one path for all: what differs stands in sql_engines.py. What the verdicts are stands in sql.py; what
makes a gold fit to judge by, in gold.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from prefkit.sandbox.job import Answer, Job
from prefkit.sandbox.limits import SqlLimits
from prefkit.verify import gold as gold_file
from prefkit.verify.compare import VERSION
from prefkit.verify.extract import extract_sql
from prefkit.verify.gold import Gold
from prefkit.verify.line_fields import texts, timeout_of
from prefkit.verify.sql import SqlCheck, judge, refused_before_running, unusable
from prefkit.verify.sql_engines import ENGINES, Target
from prefkit.verify.sql_places import Found
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Once, Source, VerifierBase

_COLUMNS = ("in_order", "any_order")


class SqlVerifier(VerifierBase):
    """Judges the SqlChecks of one engine. rows, max_bytes: most that a result may have."""

    kind: ClassVar[str] = "sql"
    fields: ClassVar[tuple[str, ...]] = ("engine", "schema", "database", "gold", "columns")

    def __init__(self, engine: str = "sqlite", rows: int = 10_000, max_bytes: int = 2_000_000) -> None:
        """Raises KeyError for an engine that there is not."""
        self.engine = ENGINES[engine]
        self.worker = self.engine.job.kind
        self.places = self.engine.places()
        self._rows, self._bytes = rows, max_bytes
        self.versions = self.engine.versions | {"judge": VERSION}

    def prepare(self) -> None:
        """Look anew at the databases, which may have changed."""
        self.places.prepare()

    def close(self) -> None:
        self.places.close()

    def read(self, line: dict[str, Any], id: str, source: Source) -> SqlCheck:
        """A line: {"schema": SQL text or [texts] | "database": path or [paths], "gold": query or [queries], "answer": text,
        "timeout": seconds, "columns": "in_order" | "any_order", "engine": a key of ENGINES}. For PostgreSQL a "database" is a connection
        string. The check may be another engine's than this one's."""
        engine = line.get("engine", self.engine.name)
        if not isinstance(engine, str) or engine not in ENGINES:
            raise ValueError(f'"engine" is one of {", ".join(ENGINES)}, not {engine!r}')
        golds = texts(line, "gold")
        timeout = timeout_of(line, source)
        columns = line.get("columns", "in_order")
        if columns not in _COLUMNS:
            raise ValueError(f'"columns" is one of {", ".join(_COLUMNS)}')
        databases = ENGINES[engine].places.read(line, source)
        return SqlCheck(id, line["answer"], golds, databases, timeout, columns, engine)

    def variant(self, check: SqlCheck) -> str:
        return "" if check.engine == self.engine.name else check.engine

    def ask(self, check: SqlCheck) -> Once | None:
        return next((wanted for database in check.databases if (wanted := self.places.ask(database)) is not None), None)

    def key(self, check: SqlCheck) -> Sequence[Any]:
        return [self._query(check), check.golds, self._contents(check), check.timeout_s, check.columns, self._rows, self._bytes]

    def data_hash(self, check: SqlCheck) -> str:
        """One hash over the contents of all data instances; empty where one is missing."""
        contents = self._contents(check)
        return hashlib.sha256("\n".join(contents).encode()).hexdigest() if all(contents) else ""

    def kept(self, check: SqlCheck) -> bool:
        return all(map(self.places.kept, check.databases))

    def judge(self, check: SqlCheck) -> Generator[Job | Once, Any, Judgement]:
        """Databases, golds, query."""
        found: list[Found] = []
        for database in check.databases:
            found.append((yield from self.places.find(database)))
        broken = next((one for one in found if one.problem), None)
        if broken is not None or not found:
            status = Status.INFRA if broken is not None and broken.infra else Status.UNVERIFIABLE
            return Judgement(status, broken.problem if broken is not None else "no database")
        target = Target(self.engine, tuple((one.place, one.stamp) for one in found), self.places.folder)
        limits = SqlLimits(check.timeout_s, self._rows, self._bytes)
        golds: list[Gold] = []
        for gold in check.golds:
            golds.append((yield self._gold(gold, check, target, limits)))
        sql = self._query(check)
        judgement = unusable(golds) or refused_before_running(sql)
        if judgement is None and sql is not None:
            ran: Answer = yield target.job(sql, limits)
            judgement = judge(golds, ran, self.engine, check.columns)
        assert judgement is not None
        return judgement

    def _query(self, check: SqlCheck) -> str | None:
        return extract_sql(check.answer, self.engine.name)

    def _contents(self, check: SqlCheck) -> list[str]:
        return [self.places.content(database) for database in check.databases]

    def _gold(self, sql: str, check: SqlCheck, target: Target, limits: SqlLimits) -> Once:
        kept = self.kept(check)
        return Once(
            ["gold", self.versions, sql, self._contents(check), limits.timeout_s, limits.rows, limits.bytes],
            begin=lambda: gold_file.prepare(sql, target, limits),
            lost=lambda reason: Gold(problem=reason, infra=True),
            again=lambda gold: gold.infra,
            save=Gold.to_json if kept else lambda _: None,
            load=Gold.from_json if kept else None,
        )
