"""What a query can do to a DuckDB database: nothing but read it, within limits. Numbers in names are those of the abuse suite."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prefkit.sandbox.job import Result
from prefkit.sandbox.launch import command
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.probe import probe_duckdb
from prefkit.sandbox.tiers import code_tier, probe_code
from prefkit.verify.sql_jobs import DuckdbJob

duckdb = pytest.importorskip("duckdb", reason="the extra `duckdb` is not installed")
MAX_SIZE, ORDERS = 16 << 20, ("forward", "reverse", "mixed")

Run = Callable[..., Result]
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"
SHOP = """
CREATE TYPE kind AS ENUM ('fruit', 'green');
CREATE TABLE sale(id INTEGER PRIMARY KEY, item VARCHAR, price DECIMAL(6,2), photo BLOB, sold kind);
INSERT INTO sale VALUES (1, 'pear', 2.0, '\\x00\\xFF', 'fruit'), (2, 'apple', 3.5, NULL, NULL), (3, 'apple', 1.0, NULL, 'green');
CREATE SCHEMA office;
CREATE TABLE office.desk(n INTEGER);
INSERT INTO office.desk VALUES (7), (8);
CREATE VIEW today AS SELECT current_date AS day;
CREATE VIEW lucky AS SELECT random() AS n;
CREATE VIEW nested AS SELECT n FROM lucky;
CREATE VIEW desks AS SELECT n FROM office.desk;
CREATE MACRO twice(x) AS x * 2;
CREATE MACRO noisy(x) AS x + random();
CREATE MACRO cheap(most) AS TABLE SELECT id FROM sale WHERE price < most;
CREATE SEQUENCE number;
"""

FORBIDDEN = {
    "44 attach": "ATTACH '{folder}/other.duckdb' AS other",
    "44 copy to a file": "COPY sale TO '{folder}/copy.csv'",
    "44 copy of a query": "COPY (SELECT 1) TO '{folder}/copy.csv'",
    "44 export": "EXPORT DATABASE '{folder}/export'",
    "44 detach": "DETACH shop",
    "44 use": "USE office",
    "44 read a file": "SELECT * FROM read_csv('/etc/passwd')",
    "44 read text": "SELECT * FROM read_text('/etc/passwd')",
    "44 list files": "SELECT * FROM glob('/etc/*')",
    "44 read another database": "SELECT * FROM read_duckdb('{folder}/shop.duckdb')",
    "45 setting": "SET threads = 8",
    "45 external access": "SET enable_external_access = true",
    "45 pragma": "PRAGMA threads = 8",
    "45 reset": "RESET memory_limit",
    "45 log": "SELECT write_log('x')",
    "45 logging": "CALL enable_logging('QueryLog', storage_path = '{folder}/log')",
    "45 memory address": "SELECT * FROM arrow_scan(1, 2, 3)",
    "45 memory address of a frame": "SELECT * FROM pandas_scan(1)",
    "45 grammar": "CALL add_grammar_extension('x')",
    "46 load": "LOAD '{folder}/x.duckdb_extension'",
    "46 install": "INSTALL httpfs",
    "46 force install": "FORCE INSTALL httpfs FROM community",
    "47 stacked": "SELECT 1; DROP TABLE sale",
    "47 stacked queries": "SELECT 1; SELECT 2",
    "47 query in a text": "SELECT * FROM query('SELECT 1')",
    "47 query in JSON": "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "48 drop": "DROP TABLE sale",
    "48 insert": "INSERT INTO office.desk VALUES (9)",
    "48 insert behind WITH": "WITH x AS (SELECT 9 AS n) INSERT INTO office.desk SELECT n FROM x",
    "48 delete inside WITH": "WITH gone AS (DELETE FROM office.desk RETURNING *) SELECT * FROM gone",
    "48 update inside WITH": "WITH new AS (UPDATE office.desk SET n = 0 RETURNING n) SELECT * FROM new",
    "48 returning": "UPDATE office.desk SET n = 0 RETURNING n",
    "48 behind a comment": "/* SELECT */ -- SELECT\nDELETE FROM office.desk RETURNING n",
    "48 temporary table": "CREATE TEMP TABLE t AS SELECT 1",
    "48 secret": "CREATE SECRET (TYPE s3)",
    "48 sequence": "SELECT nextval('number')",
    "48 merge": "MERGE INTO office.desk USING sale ON id = n WHEN MATCHED THEN DELETE",
    "48 variable": "SET VARIABLE x = 1",
    "48 prepare": "PREPARE p AS SELECT 1",
    "transaction": "BEGIN TRANSACTION",
    "checkpoint": "CHECKPOINT",
    "checkpoint function": "SELECT * FROM force_checkpoint()",
    "vacuum": "VACUUM",
    "call": "CALL duckdb_tables()",
    "explain": "EXPLAIN ANALYZE SELECT 1",
    "describe": "DESCRIBE sale",
    "show": "SHOW TABLES",
    "show behind FROM": "SELECT * FROM (SHOW TABLES)",
    "sleep": "SELECT sleep_ms(60000)",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "settings": "SELECT * FROM duckdb_settings()",
    "temporary files": "SELECT * FROM duckdb_temporary_files()",
}


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duck") / "shop.duckdb"
    path.parent.chmod(0o755)  # the worker may be a user of its own
    connection = duckdb.connect(str(path))
    connection.execute(SHOP)
    connection.close()
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for databases of a test's own."""
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    if not probe_code("A").tier and not probe_code("B").tier:
        pytest.skip(f"no tier A or B here: {probe_code('A').mend}")
    with WorkerPool(1, {"duckdb": code_tier("B")}) as pool:
        yield pool


@pytest.fixture
def run(pool: WorkerPool, shop: Path) -> Run:
    """Run one query on the shop, half a second long, and return its result."""

    def run(sql: str, timeout_s: float = 0.5, path: Path = shop, order: str = "", **limits: int | bool) -> Result:
        job = DuckdbJob(sql, ((path.name, "1"),), SqlLimits(timeout_s, **limits), order, folder=str(path.parent))  # type: ignore[arg-type]
        return pool.run(job).last

    return run


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_everything_but_reading_is_policy(run: Run, shop: Path, sql: str) -> None:
    before = hashlib.sha256(shop.read_bytes()).digest()
    result = run(sql.replace("{folder}", str(shop.parent)))
    assert result.status == "policy", result
    assert hashlib.sha256(shop.read_bytes()).digest() == before
    assert os.listdir(shop.parent) == ["shop.duckdb"]
    assert run("SELECT sum(n) FROM office.desk").rows == [(15,)]


def test_reasons_name_what_was_tried(run: Run) -> None:
    assert run("DELETE FROM sale").reason == "not a query: DELETE"
    assert run("WITH x AS (SELECT 1) DELETE FROM sale").reason == "not a query: DELETE"
    assert run("WITH d AS (DELETE FROM office.desk RETURNING n) FROM d").reason == "not a query: DELETE"
    assert run("SELECT 1; SELECT 2").reason == "more than one statement"
    assert run("SELECT * FROM read_csv('x')").reason == "function not allowed: read_csv"


def test_a_file_named_as_a_table_is_not_read(run: Run) -> None:
    assert run("SELECT * FROM '/etc/passwd'").reason == "no such table: /etc/passwd"
    assert (run("SELECT * FROM '/etc/hosts.csv'").status, run("SELECT * FROM '/etc/hosts.csv'").reason) == ("policy", "reads files")
    assert run("SELECT * FROM sys").reason == "no such table: sys"  # a name of the worker's own program


READS = {
    "SELECT 1 UNION ALL SELECT 2": [(1,), (2,)],
    "VALUES (1), (2)": [(1,), (2,)],
    "FROM sale SELECT item WHERE id = 1": [("pear",)],
    "-- which\nSELECT item FROM sale WHERE id = 1;": [("pear",)],
    "/* ; */ WITH a AS (SELECT 1 AS x) SELECT x FROM a": [(1,)],
    ENDLESS.replace("FROM r)", "FROM r WHERE x < 3)").format("x"): [(1,), (2,), (3,)],
    "SELECT photo FROM sale WHERE id = 1": [(b"blob:\x00\xff",)],
    "SELECT price, sold FROM sale ORDER BY id": [(2, "fruit"), (3.5, None), (1, "green")],
    "SELECT n FROM desks": [(7,), (8,)],
    "SELECT twice(n) FROM office.desk": [(14,), (16,)],
    "SELECT * FROM cheap(2)": [(3,)],
    "SELECT i FROM range(3) t(i)": [(0,), (1,), (2,)],
    "SELECT unnest([1, 2])": [(1,), (2,)],
    "PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b)": [(2,)],
    "SELECT item, row_number() OVER (ORDER BY id) FROM sale LIMIT 1": [("pear", 1)],
    "SELECT [x * 2 FOR x IN [1, 2]]": [(b"list:[2,4]",)],
    "SELECT count(*) FROM information_schema.tables WHERE table_name = 'sale'": [(1,)],
}


@pytest.mark.parametrize("sql", READS)
def test_every_kind_of_reading_works(run: Run, sql: str) -> None:
    result = run(sql)
    assert (result.status, result.rows) == ("ok", READS[sql]), result.reason
    assert [[type(value) for value in row] for row in result.rows] == [[type(value) for value in row] for row in READS[sql]]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT nme FROM sale", "no such column: nme"),
        ("SELECT sale.nme FROM sale", "no such column: nme"),
        ("SELECT * FROM sales", "no such table: sales"),
        ("SELECT foo(1)", "no such function: foo"),
        ("SELECT id FROM sale a, sale b", "ambiguous column name: id"),
        ("SELECT item, FROM", 'syntax error near "FROM"'),
        ("nonsense", 'syntax error near "nonsense"'),
        ("SELECT ?", "the query has parameters"),
        ("SELECT $name", "the query has parameters"),
        ("", "empty query"),
        ("-- only this", "empty query"),
        ("SELECT '\udce9'", "syntax error: not UTF-8"),
        ("SELECT " + "[" * 900 + "1" + "]" * 900, "too deeply nested"),
    ],
)
def test_errors_have_uniform_words(run: Run, sql: str, reason: str) -> None:
    assert (run(sql).status, run(sql).reason) == ("error", reason)


@pytest.mark.parametrize("sql", ["\x00", "SELECT \ufffd", "(" * 3000, "SELECT " + "-" * 5000 + "1", "SELECT 'a'::INT", "SELECT error('x')"])
def test_odd_text_is_an_error_and_the_worker_lives(run: Run, pool: WorkerPool, sql: str) -> None:
    replaced = pool.replaced
    assert run(sql).status == "error"
    assert run("SELECT 1").rows == [(1,)]
    assert pool.replaced == replaced


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS.format("count(*)"),
        "SELECT count(*) FROM range(1000000000000)",
        "SELECT sum(a.range) FROM range(10000000) a, range(10000000) b",
        "SELECT max(levenshtein(repeat('a', 20000), repeat('b', 20000) || range)) FROM range(1000)",
    ],
    ids=["49 recursive CTE", "49 count", "49 cross join", "50 slow function"],
)
def test_endless_queries_time_out(run: Run, sql: str) -> None:
    """By interrupt as a rule; on a busy machine the thread that interrupts may come too late, and the worker is killed and replaced."""
    result = run(sql, timeout_s=0.3)
    assert (result.status, result.reason) == ("timeout", "time limit: processor time")
    assert run("SELECT 1").rows == [(1,)]


def test_50_work_that_cannot_be_interrupted_is_killed(run: Run, pool: WorkerPool) -> None:
    replaced = pool.replaced
    result = run("SELECT list_sort(range(20000000), 'DESC')", timeout_s=0.05)
    assert (result.status, result.reason) == ("timeout", "time limit: processor time")
    assert pool.replaced in (replaced, replaced + 2)  # the run and the one that confirms it, where the interrupt came too late
    assert run("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT range(3000000000)", "limit: memory"),
        ("SELECT range(10000000000)", "limit: memory"),
        ("SELECT list(i) FROM range(1000000000) t(i)", "limit: memory"),
        ("SELECT repeat('x', 3000000000)", "limit: memory"),
        ("SELECT count(DISTINCT a.range * 1000000 + b.range) FROM range(1000000) a, range(1000000) b", "limit: memory"),
        ("SELECT a.range FROM range(1000000000) a ORDER BY hash(a.range)", "limit: memory"),
        ("SELECT * FROM range(1000000000000)", "limit: rows (more than 10000)"),
        (ENDLESS.format("x"), "limit: rows (more than 10000)"),
        ("SELECT repeat('x', 30000) FROM range(1000)", "limit: bytes (more than 2000000)"),
        ("SELECT range(300000)", "limit: bytes (more than 2000000)"),
    ],
    ids=["56 range", "56 longer range", "56 list", "51 text", "51 groups", "51 sort", "56 rows", "51 rows", "51 bytes", "51 one value"],
)
def test_large_results_are_limits(run: Run, sql: str, reason: str) -> None:
    result = run(sql, timeout_s=20.0)
    assert (result.status, result.reason) == ("limit", reason)
    assert run("SELECT 1").rows == [(1,)]


def test_truncate_keeps_the_first_rows(run: Run) -> None:
    result = run("SELECT * FROM range(1000000000000)", rows=3, truncate=True)
    assert (result.status, result.rows, result.truncated) == ("ok", [(0,), (1,), (2,)], True)
    assert run("SELECT 1", rows=3, truncate=True).truncated is False


@pytest.mark.parametrize(
    ("sql", "uses"),
    [
        ("SELECT random()", ("random",)),
        ("SELECT item FROM sale ORDER BY RANDOM()", ("random",)),
        ("SELECT gen_random_uuid()", ("random",)),
        ("SELECT * FROM sale USING SAMPLE 2 ROWS", ("random",)),
        ("SELECT * FROM sale TABLESAMPLE 50%", ("random",)),
        ("SELECT * FROM sale USING SAMPLE reservoir(2 ROWS) REPEATABLE (42)", ()),
        ("SELECT n FROM lucky", ("random",)),
        ("SELECT n FROM nested", ("random",)),
        ("SELECT noisy(n) FROM office.desk", ("random",)),
        ("SELECT list_transform([1], lambda x: x + random())", ("random",)),
        ("SELECT now()", ("clock",)),
        ("SELECT current_date", ("clock",)),
        ("SELECT CURRENT_TIMESTAMP", ("clock",)),
        ("SELECT today()", ("clock",)),
        ("SELECT age(TIMESTAMP '2024-01-01')", ("clock",)),
        ("SELECT age(TIMESTAMP '2024-01-01', TIMESTAMP '2023-01-01')", ()),
        ("SELECT day FROM today", ("clock",)),
        ("SELECT now(), random()", ("clock", "random")),
        ("SELECT 'now', date_trunc('month', DATE '2024-01-31')", ()),
        ("SELECT year(DATE '2024-01-01')", ()),
    ],
)
def test_53_clock_and_random_are_seen(run: Run, sql: str, uses: tuple[str, ...]) -> None:
    result = run(sql)
    assert (result.status, result.uses) == ("ok", uses), result.reason


def test_no_query_leaves_a_trace_for_the_next(run: Run) -> None:
    first = run("SELECT id, item FROM sale ORDER BY id").rows
    for sql in [*FORBIDDEN.values(), ENDLESS.format("x"), "SELECT random()", "nonsense"]:
        run(sql, timeout_s=0.1)
        after = run("SELECT id, item FROM sale ORDER BY id")
        assert (after.rows, after.uses) == (first, ())


def test_54_rows_in_another_order(run: Run) -> None:
    joined = {order: run("SELECT string_agg(id, '') FROM sale", order=order) for order in ("", *ORDERS)}
    assert [result.rows for result in joined.values()] == [[("123",)], [("123",)], [("321",)], [("132",)]]
    assert all(result.faithful for result in joined.values())
    assert sorted(run("SELECT n, day > DATE '2000-01-01', c.id FROM desks, today, cheap(2) c", order="reverse").rows) == [
        (7, b"bool:true", 3),
        (8, b"bool:true", 3),
    ]
    assert run("SELECT day FROM today", order="mixed").uses == ("clock",)


def test_a_copy_that_lacks_something_is_not_faithful(run: Run, folder: Path) -> None:
    path = folder / "odd.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("CREATE TABLE t(x INT); CREATE VIEW v AS SELECT * FROM t; DROP TABLE t")
    connection.close()
    assert run("SELECT 1", path=path, order="forward").faithful is False


def test_schema_text_is_a_database_of_its_own(run: Run, folder: Path) -> None:
    path = folder / "made.sql"
    path.write_text("CREATE TABLE t(x INT, made TIMESTAMP DEFAULT now()); INSERT INTO t VALUES (1, NULL), (2, NULL);")
    assert run("SELECT x FROM t", path=path).rows == [(1,), (2,)]
    assert run("SELECT string_agg(x, '') FROM t", path=path, order="reverse").rows == [("21",)]
    assert run("WITH d AS (DELETE FROM t RETURNING x) SELECT * FROM d", path=path).status == "policy"
    assert run("SELECT count(*) FROM t", path=path).rows == [(2,)]
    assert run("SELECT * FROM read_text('/etc/passwd')", path=path).status == "policy"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABL t(x INT)", "schema fails: Parser Error"),
        ("COPY (SELECT 1) TO '/tmp/prefkit-x.csv'", "schema fails: statement not allowed: COPY"),
        ("ATTACH '/tmp/prefkit-x.duckdb'", "schema fails: statement not allowed: ATTACH"),
        ("SET memory_limit = '100GB'", "schema fails: statement not allowed: SET"),
        ("CREATE TABLE t AS SELECT * FROM read_text('/etc/passwd')", "schema fails: Permission Error"),
        ("CREATE TABLE t AS SELECT random() AS x", "schema fails: its rows depend on the clock"),
        ("CREATE TABLE t(x INT); INSERT INTO t SELECT 1 WHERE now() > DATE '2020-01-01'", "schema fails: its rows depend on the clock"),
        ("CREATE TABLE t(x INT, y TIMESTAMP DEFAULT now()); INSERT INTO t(x) VALUES (1)", "schema fails: its rows depend on the clock"),
    ],
)
def test_schema_text_that_cannot_be_used(
    pool: WorkerPool, shop: Path, script: str, reason: str, left_in_tmp: Callable[[str], list[str]]
) -> None:
    def build(script: str) -> Result:
        return pool.run(DuckdbJob("", (), SqlLimits(5.0), script=script, folder=str(shop.parent))).last

    assert build(script).status == "error"
    assert build(script).reason.startswith(reason)
    assert build("CREATE TABLE t(x INT)").status == "ok"
    assert left_in_tmp("prefkit-x.*") == []


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100, b"\0" * 8 + b"DUCK" + b"\xff" * 8192])
def test_files_that_are_no_database(run: Run, folder: Path, content: bytes | None) -> None:
    path = folder / "x.duckdb"
    if content is not None:
        path.write_bytes(content)
    assert run("SELECT 1", path=path).status == "database"
    assert path.exists() == (content is not None)


def test_a_changed_file_is_read_anew(pool: WorkerPool, folder: Path) -> None:
    path = folder / "x.duckdb"
    for stamp in ("1", "2"):
        path.unlink(missing_ok=True)
        connection = duckdb.connect(str(path))
        connection.execute(f"CREATE TABLE t AS SELECT {stamp} AS x")
        connection.close()
        job = DuckdbJob("SELECT x FROM t", ((path.name, stamp),), SqlLimits(), folder=str(folder))
        assert pool.run(job).last.rows == [(int(stamp),)]


def test_unfinished_writes_are_refused(run: Run, shop: Path, folder: Path) -> None:
    path = folder / "x.duckdb"
    shutil.copy(shop, path)
    Path(f"{path}.wal").write_bytes(b"x")
    assert (run("SELECT 1", path=path).status, "unfinished writes" in run("SELECT 1", path=path).reason) == ("database", True)


def test_a_large_file_has_no_copy(run: Run, shop: Path, folder: Path) -> None:
    path = folder / "x.duckdb"
    shutil.copy(shop, path)
    os.truncate(path, MAX_SIZE + 1)
    assert run("SELECT 1", path=path, order="forward").status == "database"


@pytest.mark.parametrize("tier", ["A", "B"])
def test_the_canaries_are_held_in_either_tier(tier: str) -> None:
    """A limit of no process binds all but root, whom a worker never is: the engine must not need a thread."""
    if not probe_code(tier).tier:
        pytest.skip(f"no tier {tier} here: {probe_code(tier).mend}")
    probe = probe_duckdb(tier)
    assert (probe.tier, probe.mend) == (tier, "")
    assert len(probe.evidence) >= 11 and all(item.held for item in probe.evidence)


OUTSIDE = """
import json, os, socket, sys
from prefkit.sandbox.isolated import leave_process_one, lock_in
plan, folder, (secret, port, parent) = json.loads(sys.argv[1]), sys.argv[2], json.loads(os.environ["TRY"])
leave_process_one()
lock_in(plan, folder)
def tried(what):
    try:
        return str(what())
    except OSError:
        return "refused"
print(json.dumps({
    "the database": tried(lambda: open(folder + "/shop.duckdb", "rb").read()[8:12]),
    "write beside it": tried(lambda: open(folder + "/new", "w")),
    "write it": tried(lambda: open(folder + "/shop.duckdb", "r+")),
    "a file outside": tried(lambda: open(secret).read()),
    "a file in /tmp": tried(lambda: open("/tmp/x", "w")),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", port), 1)),
    "signal": tried(lambda: os.kill(parent, 0)),
    "root": os.getuid() == 0,
}))
"""


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_worker_reads_its_folder_and_does_nothing_else(shop: Path, tmp_path: Path, tier: str) -> None:
    """As if the engine were taken over: what the process itself can do once it is locked in."""
    if not probe_code(tier).tier:
        pytest.skip(f"no tier {tier} here: {probe_code(tier).mend}")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        launch = command("duckdb", tier, str(shop.parent))
        plan = json.loads(launch.argv[-1])
        at = plan["program"].index("-c") + 1
        start = plan["program"][at].partition("; from prefkit")[0]
        plan["program"][at] = f"{start}\n{OUTSIDE}"
        plan["env"]["TRY"] = json.dumps([str(secret), listener.getsockname()[1], os.getpid()])
        argv = [*launch.argv[:-1], json.dumps(plan)]
        done = subprocess.run(argv, env=launch.env, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    refused = dict.fromkeys(("write beside it", "write it", "a file outside", "a file in /tmp", "connect", "signal"), "refused")
    assert json.loads(done.stdout) == {"the database": "b'DUCK'", **refused, "root": False}
    assert os.listdir(shop.parent) == ["shop.duckdb"]
