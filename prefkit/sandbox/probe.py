"""Which guards hold on this machine, found by running canaries rather than by asking for flags."""

from __future__ import annotations

import functools
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import SqlJob
from prefkit.sandbox.launch import require
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool

TIERS = ("A", "B", "P")
"""Isolation from strong to weak. A: namespaces, system-call filter, Landlock. B: the latter two. P: a guarded process with limits."""

_SQLITE = (
    ("attach another file", "ATTACH '{folder}/other.sqlite' AS other", "policy"),
    ("write a row", "WITH x AS (SELECT 1) INSERT INTO canary SELECT * FROM x", "policy"),
    ("write a copy of the file", "VACUUM INTO '{folder}/copy.sqlite'", "policy"),
    ("make the schema writable", "PRAGMA writable_schema = 1", "policy"),
    ("load an extension", "SELECT load_extension('{folder}/x')", "policy"),
    ("run without end", "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r", "timeout"),
    ("compute without a step", "SELECT sum(instr(replace(hex(zeroblob(60000)), '0', 'a'), substr(hex(zeroblob(60000)), 1, x))) FROM "
     "(WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 4000) SELECT x FROM r)", "timeout"),
    ("a value of a gigabyte", "SELECT zeroblob(1000000000)", "limit"),
    ("rows without end", "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r", "limit"),
)  # fmt: skip
_DUCKDB = (
    ("a plain query", "SELECT x FROM canary", "ok"),
    ("attach another file", "ATTACH 'other.duckdb' AS other", "policy"),
    ("write a row", "WITH x AS (SELECT 1) INSERT INTO canary SELECT * FROM x", "policy"),
    ("write a file", "COPY canary TO 'copy.csv'", "policy"),
    ("read a file", "SELECT * FROM read_csv('/etc/passwd')", "policy"),
    ("load an extension", "LOAD httpfs", "policy"),
    ("change a setting", "SET memory_limit = '100GB'", "policy"),
    ("run without end", "SELECT count(*) FROM range(1000000000000)", "timeout"),
    ("memory without end", "SELECT range(10000000000)", "limit timeout"),
    ("rows without end", "SELECT * FROM range(1000000000)", "limit timeout"),
)
"""Name, query, and the statuses that say that the guard held."""


_LIMITS = SqlLimits(timeout_s=0.2, rows=1000)
_TRIES = 3
_THROUGH = "ok"
"""How the outcome of a canary begins that did what it tried."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One canary: what was tried, whether the guard held, and what came of it."""

    tried: str
    held: bool
    outcome: str


@dataclass(frozen=True, slots=True)
class Probe:
    """tier: the isolation in force, or None where a canary got through or no worker starts. mend: what to do then."""

    tier: str | None
    evidence: tuple[Evidence, ...]
    mend: str = ""


class _DuckdbJob(SqlJob):
    kind: ClassVar[str] = "duckdb"

    def wall_s(self) -> float:
        return 30.0


def probe_sqlite() -> Probe:
    """Run the canaries against a guarded SQLite worker. Takes about a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.path.realpath(folder), "canary.sqlite")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE canary(x)")
        connection.commit()
        connection.close()
        jobs = [SqlJob(sql.replace("{folder}", folder), ((path, ""),), _LIMITS) for _, sql, _ in _SQLITE]
        mend = f"this build of SQLite ({sqlite3.sqlite_version}) lets through: {{}}; use another build of Python"
        return _probe("P", _SQLITE, jobs, folder, mend)


@functools.cache
def probe_duckdb(tier: str) -> Probe:
    """Run the canaries against a DuckDB worker in tier "A" or "B". Takes about a second, once in a process.

    Again where none got through and still not all were held: a machine that is too busy to start a worker says nothing about the guards.
    """
    try:
        require("duckdb")
    except IsolationUnavailable as error:
        return Probe(None, (), str(error))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the worker may be another user
        with open(os.path.join(folder, "canary.sql"), "w") as file:
            file.write("CREATE TABLE canary(x INTEGER)")
        os.chmod(file.name, 0o644)
        jobs = [_DuckdbJob(sql, (("canary.sql", ""),), SqlLimits(timeout_s=1.0, rows=1000), folder=folder) for _, sql, _ in _DUCKDB]
        mend = "this version of DuckDB lets through: {}; install another: pip install -U 'prefkit[duckdb]'"
        for _ in range(_TRIES):
            probe = _probe(tier, _DUCKDB, jobs, folder, mend)
            if probe.tier or any(not item.held and item.outcome.startswith(_THROUGH) for item in probe.evidence):
                break
        return probe


def _probe(tier: str, canaries: Sequence[tuple[str, str, str]], jobs: Sequence[SqlJob], folder: str, mend: str) -> Probe:
    """The canaries, each with its job, in a worker of that tier; whether a file appeared in `folder`, which holds one."""
    evidence = []
    files = os.listdir(folder)
    try:
        with WorkerPool(1, {jobs[0].kind: tier}) as pool:
            for (tried, _, wanted), job in zip(canaries, jobs, strict=True):
                result = pool.run(replace(job)).last
                evidence.append(Evidence(tried, result.status in wanted.split(), f"{result.status}: {result.reason}"))
    except IsolationUnavailable as error:
        return Probe(None, tuple(evidence), str(error))
    evidence.append(Evidence("leave a file behind", os.listdir(folder) == files, f"{_THROUGH}: {', '.join(os.listdir(folder))}"))
    broken = [f"{item.tried} ({item.outcome})" for item in evidence if not item.held]
    return Probe(None, tuple(evidence), mend.format(", ".join(broken))) if broken else Probe(tier, tuple(evidence))
