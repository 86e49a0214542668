"""Thousands of hostile and plain answers: none lost, none flips, nothing left. `make soak` runs this."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import SCORED

GOLD = "SELECT name, price FROM item ORDER BY price DESC, name"
HOSTILE = [
    "ATTACH '/tmp/prefkit-soak-{i}' AS y",
    "SELECT load_extension('{i}')",
    "SELECT 1; DROP TABLE item -- {i}",
    "PRAGMA writable_schema = {i}",
    "SELECT random() + {i}",
    "SELECT zeroblob(1000000000 + {i})",
    "WITH RECURSIVE r(x) AS (SELECT {i} UNION ALL SELECT x + 1 FROM r) SELECT x FROM r",
    "SELECT group_concat(hex(zeroblob(50000))) || {i} FROM item, item b",
    "\x00{i}",
    "{i} \udce9\udcff SELECT",
    "(" * 900 + "SELECT {i}",
    "SELECT " + "-" * 900 + "{i}",
    "SELECT " + ", ".join(["{i}"] * 1500),
    "SELECT * FROM " + ", ".join(["item"] * 70) + " WHERE {i}",
]
SLOW = [
    "WITH RECURSIVE r(x) AS (SELECT {i} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count({i}) FROM " + ", ".join(f"item AS a{k}, sale AS b{k}" for k in range(8)),
]
NUMBER = 10_000
STALL = (
    "WITH b AS (SELECT replace(hex(zeroblob(30000)), '0', 'a') AS t), r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20000) "
    "SELECT sum(instr(t || t, substr(t, 1, 30000 + x % 7) || 'b')) + {i} FROM b, r"
)


@pytest.mark.soak
def test_hostile_answers(shops: tuple[str, str], left_in_tmp: Callable[[str], list[str]]) -> None:
    chance = random.Random(3)

    def answer(i: int) -> str:
        draw = chance.random()
        if draw < 0.005:
            return STALL.replace("{i}", str(i))
        return (chance.choice(SLOW) if draw < 0.1 else chance.choice(HOSTILE) if draw < 0.6 else "/* {i} */ " + GOLD).replace("{i}", str(i))

    checks = [SqlCheck(str(i), answer(i), (GOLD,), shops, 0.5) for i in range(NUMBER)]
    before = sorted(os.listdir(Path(shops[0]).parent))
    runs = []
    peaks = []
    for _ in range(2):
        with Scheduler(workers=2) as scheduler:
            runs.append([(verdict.id, str(verdict.status), verdict.reason) for verdict in scheduler.verify(checks)])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert [name for name, _, _ in runs[0]] == [check.id for check in checks]
    assert runs[0] == runs[1]
    assert {status for _, status, _ in runs[0]} <= {str(status) for status in SCORED}
    assert peaks[1] < peaks[0] * 1.2
    assert sorted(os.listdir(Path(shops[0]).parent)) == before
    assert left_in_tmp("prefkit-soak-*") == []
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout.split()
    assert len(children) <= 1  # ps itself
