"""The SQL verifier as the scheduler drives it: find or build the databases, check the golds, run the answer's query, judge.

What the verdicts are stands in sql.py; what makes a gold fit to judge by, in gold.py.
"""

from __future__ import annotations

import base64
import hashlib
import sqlite3
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from prefkit.sandbox.job import Answer, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.verify import gold as gold_file
from prefkit.verify.compare import VERSION
from prefkit.verify.databases import Databases
from prefkit.verify.extract import extract_sql
from prefkit.verify.gold import Gold
from prefkit.verify.line_fields import beside, texts, timeout_of
from prefkit.verify.sql import SchemaText, SqlCheck, judge, refused_before_running, unusable
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Once, Source, VerifierBase

_COLUMNS = ("in_order", "any_order")
_BUILD_S = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """A database of a check. problem: why it is no use. infra: the machine's fault."""

    path: str = ""
    stamp: str = ""
    problem: str = ""
    infra: bool = False


class SqlVerifier(VerifierBase):
    """Judges SqlChecks. rows, max_bytes: most that a result may have."""

    kind: ClassVar[str] = "sql"
    worker: ClassVar[str | None] = "sqlite"

    def __init__(self, rows: int = 10_000, max_bytes: int = 2_000_000) -> None:
        self._rows, self._bytes = rows, max_bytes
        self._databases = Databases()
        self._built: tempfile.TemporaryDirectory | None = None
        self.versions = {"sqlite": sqlite3.sqlite_version, "judge": VERSION}

    def prepare(self) -> None:
        """Look anew at the database files, which may have changed."""
        self._databases.look_again()

    def close(self) -> None:
        if self._built is not None:
            self._built.cleanup()
            self._built = None

    def read(self, line: dict[str, Any], id: str, source: Source) -> SqlCheck:
        """A line: {"schema": SQL text or [texts] | "database": path or [paths], "gold": query or [queries], "answer": text,
        "timeout": seconds, "columns": "in_order" | "any_order"}."""
        golds = texts(line, "gold")
        timeout = timeout_of(line, source)
        columns = line.get("columns", "in_order")
        if columns not in _COLUMNS:
            raise ValueError(f'"columns" is one of {", ".join(_COLUMNS)}')
        if ("schema" in line) == ("database" in line):
            raise ValueError('expected either "schema" (SQL text) or "database" (a path or a list of paths)')
        databases: tuple[str | SchemaText, ...]
        if "schema" in line:
            databases = tuple(map(SchemaText, texts(line, "schema")))
        else:
            databases = tuple(beside(source, name) for name in texts(line, "database"))
        return SqlCheck(id, line["answer"], golds, databases, timeout, columns)

    def key(self, check: SqlCheck) -> Sequence[Any]:
        contents = [self._content(database) for database in check.databases]
        return [extract_sql(check.answer), check.golds, contents, check.timeout_s, check.columns, self._rows, self._bytes]

    def data_hash(self, check: SqlCheck) -> str:
        """One hash over the contents of all data instances; empty where one is missing."""
        contents = [self._content(database) for database in check.databases]
        return hashlib.sha256("\n".join(contents).encode()).hexdigest() if all(contents) else ""

    def kept(self, check: SqlCheck) -> bool:
        """Not where a file is missing, whose name is no part of the key."""
        return not any(isinstance(database, str) and self._databases.find(database).problem for database in check.databases)

    def judge(self, check: SqlCheck) -> Generator[SqlJob | Once, Any, Judgement]:
        """Databases, golds, query."""
        found: list[Found] = []
        for database in check.databases:
            found.append((yield self._build(database)) if isinstance(database, SchemaText) else self.find(database))
        broken = next((one for one in found if one.problem), None)
        if broken is not None or not found:
            status = Status.INFRA if broken is not None and broken.infra else Status.UNVERIFIABLE
            return Judgement(status, broken.problem if broken is not None else "no database")
        files = tuple((one.path, one.stamp) for one in found)
        limits = SqlLimits(check.timeout_s, self._rows, self._bytes)
        golds: list[Gold] = []
        for gold in check.golds:
            golds.append((yield self._gold(gold, check, files, limits)))
        sql = extract_sql(check.answer)
        judgement = unusable(golds) or refused_before_running(sql)
        if judgement is None and sql is not None:
            ran: Answer = yield SqlJob(sql, files, limits)
            judgement = judge(golds, ran, check.columns)
        assert judgement is not None
        return judgement

    def find(self, path: str) -> Found:
        """The file that a path names, and why it is no use where it is none."""
        database = self._databases.find(path)
        return Found(database.path, database.stamp, database.problem)

    def _content(self, database: str | SchemaText) -> str:
        if isinstance(database, SchemaText):
            return "schema " + hashlib.sha256(database.sql.encode("utf-8", "surrogatepass")).hexdigest()
        return self._databases.find(database).content

    def _gold(self, sql: str, check: SqlCheck, files: gold_file.Databases, limits: SqlLimits) -> Once:
        contents = [self._content(database) for database in check.databases]
        return Once(
            ["gold", self.versions, sql, contents, limits.timeout_s, limits.rows, limits.bytes],
            begin=lambda: gold_file.prepare(sql, files, limits),
            lost=lambda reason: Gold(problem=reason, infra=True),
            again=lambda gold: gold.infra,
            save=Gold.to_json,
            load=Gold.from_json,
        )

    def _build(self, schema: SchemaText) -> Once:
        return Once(
            ["schema", self._content(schema)],
            begin=lambda: self._building(schema),
            lost=lambda reason: Found(problem=reason, infra=True),
            again=lambda found: found.infra,
        )

    def _building(self, schema: SchemaText) -> Generator[SqlJob, Answer, Found]:
        """Build it in a guarded worker, into a folder that goes away at the end."""
        result = (yield SqlJob("", (), SqlLimits(timeout_s=_BUILD_S), script=schema.sql)).last
        if result.status != "ok":
            return Found(problem=f"schema fails: {result.reason}", infra=result.status == "infra")
        if self._built is None:
            self._built = tempfile.TemporaryDirectory(prefix="prefkit-")
        path = Path(self._built.name) / f"{self._content(schema).removeprefix('schema ')}.sqlite"
        path.write_bytes(base64.b64decode(result.image))
        return Found(str(path), "built")
