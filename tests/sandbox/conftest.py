"""A small shop database and a pool of guarded workers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prefkit.sandbox.job import Result, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool

SHOP = """
CREATE TABLE sale(id INTEGER PRIMARY KEY, item TEXT, price REAL, photo BLOB);
INSERT INTO sale VALUES (1, 'pear', 2.0, x'00ff'), (2, 'apple', 3.5, NULL), (3, 'apple', 1.0, NULL);
CREATE TABLE long(body TEXT);
WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 40)
INSERT INTO long SELECT replace(hex(zeroblob(30000)), '0', 'a') FROM r;
CREATE VIEW lucky AS SELECT random() AS n;
CREATE VIEW today AS SELECT date('now') AS day;
"""


def build(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.commit()
    connection.close()
    return path


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("shop") / "shop.sqlite", SHOP)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


@pytest.fixture
def run(pool: WorkerPool, shop: Path) -> Callable[..., Result]:
    """Run one query on the shop database, half a second long, and return its result."""

    def run(sql: str, timeout_s: float = 0.5, **limits: int | bool) -> Result:
        return pool.run(SqlJob(sql, ((str(shop), "1"),), SqlLimits(timeout_s, **limits))).last  # type: ignore[arg-type]

    return run
