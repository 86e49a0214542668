"""A shop in two data instances, and one scheduler for a whole file of tests."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Verdict

SCHEMA = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price REAL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item(id), qty INTEGER, day TEXT, note TEXT COLLATE NOCASE);
CREATE VIEW recent AS SELECT * FROM sale WHERE day > date('now', '-30 days');
"""
ROWS = (
    """INSERT INTO item VALUES (1, 'pear', 'fruit', 2.0), (2, 'apple', 'fruit', 3.5), (3, 'leek', 'green', 1.0), (4, 'kale', 'green', 3.5);
    INSERT INTO sale VALUES (1, 1, 4, '2024-01-02', 'a'), (2, 1, 2, '2024-01-03', 'B'),
        (3, 2, 5, '2024-02-01', NULL), (4, 3, 1, '2024-02-09', 'A');
    """,
    """INSERT INTO item VALUES (1, 'fig', 'fruit', 5.0), (2, 'plum', 'fruit', 4.5), (3, 'leek', 'green', 1.5), (5, 'chard', 'green', 4.5);
    INSERT INTO sale VALUES (1, 2, 3, '2024-03-02', 'b'), (2, 2, 3, '2024-03-05', 'b'),
        (3, 3, 9, '2024-03-09', 'c'), (6, 5, 2, '2024-04-01', NULL);
    """,
)

Verify = Callable[..., Verdict]


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("shops")
    for number, rows in enumerate(ROWS, 1):
        connection = sqlite3.connect(folder / f"{number}.sqlite")
        connection.executescript(SCHEMA + rows)
        connection.close()
    return str(folder / "1.sqlite"), str(folder / "2.sqlite")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with Scheduler(workers=1) as scheduler:
        yield scheduler


@pytest.fixture
def verify(scheduler: Scheduler, shops: tuple[str, str]) -> Verify:
    """The verdict on one answer; golds is one query or a tuple of them."""

    def verify(answer: str, golds: str | tuple[str, ...], databases: tuple[str, ...] = shops, **options: object) -> Verdict:
        check = SqlCheck("x", answer, (golds,) if isinstance(golds, str) else golds, databases, **options)  # type: ignore[arg-type]
        (verdict,) = scheduler.verify([check])
        return verdict

    return verify


@pytest.fixture
def shared() -> Path:
    """The folder of shared cases and real data."""
    folder = os.environ.get("PREFKIT_SHARED")
    if not folder:
        pytest.skip("PREFKIT_SHARED does not name the folder with the shared cases and real data")
    return Path(folder)
