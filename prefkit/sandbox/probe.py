"""Which guards hold on this machine, found by running canaries rather than by asking for flags."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from dataclasses import dataclass

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool

TIERS = ("A", "B", "P")
"""Isolation from strong to weak. A: namespaces, system-call filter, Landlock. B: the latter two. P: a guarded process with limits."""

_CANARIES = (
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


def probe_sqlite() -> Probe:
    """Run the canaries against a guarded SQLite worker. Takes about a second."""
    evidence = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.path.realpath(folder), "canary.sqlite")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE canary(x)")
        connection.commit()
        connection.close()
        try:
            with WorkerPool(1) as pool:
                for tried, sql, wanted in _CANARIES:
                    job = SqlJob(sql.replace("{folder}", folder), ((path, ""),), SqlLimits(timeout_s=0.2, rows=1000))
                    result = pool.run(job).last
                    evidence.append(Evidence(tried, result.status == wanted, f"{result.status}: {result.reason}"))
        except IsolationUnavailable as error:
            return Probe(None, tuple(evidence), str(error))
        evidence.append(Evidence("leave a file behind", os.listdir(folder) == ["canary.sqlite"], ", ".join(os.listdir(folder))))
    broken = [item.tried for item in evidence if not item.held]
    if broken:
        mend = f"this build of SQLite ({sqlite3.sqlite_version}) lets through: {', '.join(broken)}; use another build of Python"
        return Probe(None, tuple(evidence), mend)
    return Probe("P", tuple(evidence))
