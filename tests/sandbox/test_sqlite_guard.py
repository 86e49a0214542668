"""What a query can do to a guarded database: nothing but read it, within limits. Numbers in names are those of the abuse suite."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.sandbox.job import Result, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.sqlite_guard import LENGTH, open_read_only

Run = Callable[..., Result]
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"

FORBIDDEN = {
    "44 attach": "ATTACH '/tmp/prefkit-other.sqlite' AS other",
    "44 vacuum into": "VACUUM INTO '/tmp/prefkit-copy.sqlite'",
    "44 detach": "DETACH main",
    "45 writable schema": "PRAGMA writable_schema = 1",
    "45 update of the schema": "UPDATE sqlite_master SET sql = ''",
    "45 pragma": "PRAGMA query_only = 0",
    "45 pragma function": "SELECT * FROM pragma_table_info('sale')",
    "46 extension": "SELECT load_extension('/tmp/prefkit-x')",
    "46 extension in a condition": "SELECT 1 FROM sale WHERE load_extension('x') IS NULL",
    "46 tokenizer": "SELECT fts3_tokenizer('simple')",
    "47 stacked": "SELECT 1; DROP TABLE sale",
    "47 stacked queries": "SELECT 1; SELECT 2",
    "48 drop": "DROP TABLE sale",
    "48 insert": "INSERT INTO sale(item) VALUES ('x')",
    "48 insert behind WITH": "WITH x AS (SELECT 'a') INSERT INTO sale(item) SELECT * FROM x",
    "48 returning": "UPDATE sale SET price = 0 RETURNING id",
    "48 returning behind WITH": "WITH x AS (SELECT 1) DELETE FROM sale RETURNING id",
    "48 returning behind a comment": "/* SELECT */ -- SELECT\nDELETE FROM sale RETURNING id",
    "48 trigger": "CREATE TEMP TRIGGER t AFTER INSERT ON sale BEGIN SELECT 1; END",
    "48 temp table": "CREATE TEMP TABLE t AS SELECT 1",
    "48 unknown table": "DELETE FROM nowhere",
    "48 replace": "REPLACE INTO sale VALUES (1, 'x', 0, NULL)",
    "transaction": "BEGIN EXCLUSIVE",
    "savepoint": "SAVEPOINT a",
    "analyze": "ANALYZE",
    "reindex": "REINDEX",
    "explain": "EXPLAIN SELECT 1",
}


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_everything_but_reading_is_policy(run: Run, shop: Path, sql: str, left_in_tmp: Callable[[str], list[str]]) -> None:
    before = hashlib.sha256(shop.read_bytes()).digest()
    folder = sorted(os.listdir(shop.parent))
    result = run(sql)
    assert result.status == "policy", result
    assert hashlib.sha256(shop.read_bytes()).digest() == before
    assert sorted(os.listdir(shop.parent)) == folder
    assert left_in_tmp("prefkit-*.sqlite") == []
    assert run("SELECT count(*) FROM sale").rows == [(3,)]


def test_reasons_name_what_was_tried(run: Run) -> None:
    assert run("DELETE FROM sale").reason == "not a query: DELETE"
    assert run("WITH x AS (SELECT 1) DELETE FROM sale").reason == "not a query: DELETE"
    assert run("SELECT 1; SELECT 2").reason == "more than one statement"
    assert run("SELECT load_extension('x')").reason == "function not allowed: load_extension"
    assert run("SELECT * FROM pragma_table_info('sale')").reason == "table function not allowed"


READS = {
    "SELECT 1 UNION ALL SELECT 2": [(1,), (2,)],
    "VALUES (1), (2)": [(1,), (2,)],
    "-- which\nSELECT item FROM sale WHERE id = 1;": [("pear",)],
    "/* ; */ WITH a AS (SELECT 1 AS x) SELECT x FROM a": [(1,)],
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT x FROM r": [(1,), (2,), (3,)],
    "SELECT value FROM json_each('[1, \"a\"]')": [(1,), ("a",)],
    "SELECT photo FROM sale WHERE id = 1": [(b"\x00\xff",)],
    "SELECT NULL, 1, 1.0, '1', 9223372036854775807, 1e999, -1e999": [(None, 1, 1.0, "1", 2**63 - 1, float("inf"), float("-inf"))],
    "SELECT count(*) FROM sqlite_master WHERE name = 'sale'": [(1,)],
    "SELECT date('2024-01-31', '+1 month')": [("2024-03-02",)],
    "SELECT item, row_number() OVER (ORDER BY id) FROM sale LIMIT 1": [("pear", 1)],
}


@pytest.mark.parametrize("sql", READS)
def test_every_kind_of_reading_works(run: Run, sql: str) -> None:
    result = run(sql)
    assert (result.status, result.rows) == ("ok", READS[sql])
    assert [[type(value) for value in row] for row in result.rows] == [[type(value) for value in row] for row in READS[sql]]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT nme FROM sale", "no such column: nme"),
        ("SELECT * FROM sales", "no such table: sales"),
        ("SELECT foo(1)", "no such function: foo"),
        ("SELECT FROM sale", 'near "FROM": syntax error'),
        ("SELECT (1", "incomplete input"),
        ("nonsense", 'near "nonsense": syntax error'),
        ("", "empty query"),
        ("-- only this", "empty query"),
    ],
)
def test_errors_are_sqlites_words(run: Run, sql: str, reason: str) -> None:
    assert (run(sql).status, run(sql).reason) == ("error", reason)


@pytest.mark.parametrize(
    "sql",
    ["SELECT '\x00'", "SELECT '\udce9'", "SELECT ?", "SELECT :name", "\x00", "SELECT \ufffd", "(" * 3000, "SELECT " + "-" * 5000 + "1"],
)
def test_odd_text_is_an_error_and_the_worker_lives(run: Run, sql: str) -> None:
    assert run(sql).status == "error"
    assert run("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS.format("count(*)"),
        "SELECT count(*) FROM " + ", ".join(f"(SELECT * FROM long) AS a{i}" for i in range(8)),
        "SELECT a.item FROM sale a, long b, long c, long d, long e, long f ORDER BY random()",
        "WITH a AS (SELECT 1 UNION ALL SELECT 2), b AS (SELECT 1 FROM a,a,a,a), c AS (SELECT 1 FROM b,b,b,b), d AS (SELECT 1 FROM c,c,c,c) "
        "SELECT count(*) FROM d, d, d, d",
    ],
    ids=["49 recursive CTE", "49 cross join", "49 sort", "49 nested CTEs"],
)
def test_endless_queries_time_out_on_steps(run: Run, pool: WorkerPool, sql: str) -> None:
    result = run(sql)
    assert (result.status, result.reason) == ("timeout", "time limit: steps")
    assert pool.replaced == 0


def test_step_budget_is_the_same_every_time(shop: Path) -> None:
    """The least budget with which a query passes does not depend on the machine or its load."""
    database = open_read_only(str(shop))
    query = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20000) SELECT count(*) FROM r"

    def passes(steps: int) -> bool:
        return database.run(query, steps, 10, 1000, False)["status"] == "ok"

    budgets = range(20_000, 1_000_000, 20_000)
    first = [passes(steps) for steps in budgets]
    assert first == sorted(first) and first.count(True) > 0 and first.count(False) > 0
    assert [passes(steps) for steps in budgets] == first
    database.close()


def test_50_work_without_steps_is_killed_by_processor_time(run: Run, pool: WorkerPool) -> None:
    begun = time.monotonic()
    result = run("SELECT sum(instr(a.body || a.body, substr(b.body, 1, 30000) || 'b')) FROM long a, long b, long c", timeout_s=0.3)
    assert (result.status, result.reason) == ("timeout", "time limit: processor time")
    assert pool.replaced == 2  # the run and the one that confirms it
    assert time.monotonic() - begun < 20
    assert run("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT zeroblob(1000000000)", f"limit: value longer than {LENGTH} bytes"),
        ("SELECT group_concat(body) FROM long", f"limit: value longer than {LENGTH} bytes"),
        (ENDLESS.format("x"), "limit: rows (more than 10000)"),
        ("SELECT body FROM long, sale", "limit: bytes (more than 2000000)"),
        ("SELECT a.body FROM long a, long b, long c ORDER BY b.body", "limit: memory"),
    ],
    ids=["51 value", "51 joined text", "51 rows", "51 bytes", "51 memory"],
)
def test_large_results_are_limits(run: Run, sql: str, reason: str) -> None:
    result = run(sql, timeout_s=10.0)
    assert (result.status, result.reason) == ("limit", reason)
    assert run("SELECT 1").rows == [(1,)]


def test_truncate_keeps_the_first_rows(run: Run) -> None:
    result = run(ENDLESS.format("x"), rows=3, truncate=True)
    assert (result.status, result.rows, result.truncated) == ("ok", [(1,), (2,), (3,)], True)
    assert run("SELECT 1", rows=3, truncate=True).truncated is False


def test_52_the_schema_table_holds_no_gold(run: Run) -> None:
    rows = run("SELECT name FROM sqlite_master UNION SELECT name FROM sqlite_temp_master").rows
    assert {name for (name,) in rows} == {"sale", "long", "lucky", "today"}


@pytest.mark.parametrize(
    ("sql", "uses"),
    [
        ("SELECT random()", ("random",)),
        ("SELECT item FROM sale ORDER BY RANDOM()", ("random",)),
        ("SELECT hex(randomblob(4))", ("random",)),
        ("SELECT n FROM lucky", ("random",)),
        ("SELECT date('now')", ("clock",)),
        ("SELECT strftime('%Y', 'NOW', '-1 day')", ("clock",)),
        ("SELECT current_timestamp", ("clock",)),
        ("SELECT CURRENT_DATE", ("clock",)),
        ("SELECT date()", ("clock",)),
        ("SELECT strftime('%Y')", ("clock",)),
        ("SELECT day FROM today", ("clock",)),
        ("WITH t AS (SELECT 'now' AS d) SELECT date(d) FROM t", ("clock",)),
        ("SELECT date('now'), random()", ("clock", "random")),
        ("SELECT date('2024-01-01')", ()),
        ("SELECT strftime('%Y', '2024-01-01')", ()),
        ("SELECT count(*) FROM sale WHERE item = 'now' AND date('2024-01-01') > '2023'", ()),
        ("SELECT count(*) FROM sale WHERE item IN ('then', 'now') AND date('2024-01-01') > '2023'", ()),
        ("SELECT 'now'", ()),
    ],
)
def test_53_clock_and_random_are_seen(run: Run, sql: str, uses: tuple[str, ...]) -> None:
    result = run(sql)
    assert (result.status, result.uses) == ("ok", uses)


def test_no_query_leaves_a_trace_for_the_next(run: Run) -> None:
    first = run("SELECT id, item FROM sale ORDER BY id").rows
    for sql in [*FORBIDDEN.values(), ENDLESS.format("x"), "SELECT random()", "nonsense"]:
        run(sql, timeout_s=0.1)
        after = run("SELECT id, item FROM sale ORDER BY id")
        assert (after.rows, after.uses) == (first, ())


def test_text_that_is_not_utf8_keeps_its_bytes(pool: WorkerPool, tmp_path: Path) -> None:
    path = tmp_path / "latin.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t(x TEXT)")
    connection.execute("INSERT INTO t VALUES (CAST(x'e9' AS TEXT)), ('é')")
    connection.commit()
    connection.close()
    result = pool.run(SqlJob("SELECT x FROM t", ((str(path), ""),), SqlLimits())).last
    assert result.rows == [("\udce9",), ("é",)]


def test_names_with_uri_signs_are_opened_as_they_are(pool: WorkerPool, tmp_path: Path) -> None:
    for name in ("a?mode=rwc.sqlite", "a%20b.sqlite", "a#b.sqlite", "ä b.sqlite"):
        path = tmp_path / name
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t(x)")
        connection.commit()
        connection.close()
        assert pool.run(SqlJob("SELECT count(*) FROM t", ((str(path), ""),), SqlLimits())).last.rows == [(0,)]


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_files_that_are_no_database(pool: WorkerPool, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.sqlite"
    if content is not None:
        path.write_bytes(content)
    result = pool.run(SqlJob("SELECT count(*) FROM sale", ((str(path), ""),), SqlLimits())).last
    assert result.status == ("database" if content != b"" else "error")  # an empty file is an empty database
    assert path.exists() == (content is not None)
