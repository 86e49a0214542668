"""What a query can do to a PostgreSQL database: nothing but read it, within limits. Numbers in names are those of the abuse suite.

The server is a throw-away cluster on a socket in a temporary folder; without PostgreSQL's server programs these tests are skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from prefkit.errors import DatabaseError
from prefkit.sandbox.dsn import Dsn, from_environment, scrub
from prefkit.sandbox.job import Result
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.postgres_role import right_role
from prefkit.verify.sql_jobs import PostgresJob, PostgresLook
from tests.sandbox.postgres_server import PASSWORD, Server, started

Run = Callable[..., Result]
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"
SHOP = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE place AS (x int, y text);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE sale(id int PRIMARY KEY, item text, price numeric(6,2), sold timestamptz, tags text[], photo bytea);
INSERT INTO sale VALUES (1, 'pear', 2, '2024-01-02 10:00+02', '{a,"b c"}', '\\x00ff'), (2, 'apple', 3.5, NULL, NULL, NULL),
  (3, 'apple', 1, '2024-01-01', '{}', NULL);
CREATE TABLE secret(x int);
CREATE VIEW today AS SELECT current_date AS day;
CREATE VIEW lucky AS SELECT random() AS n;
CREATE SEQUENCE number;
CREATE FUNCTION this_year() RETURNS int LANGUAGE sql STABLE AS 'SELECT extract(year FROM now())::int';
CREATE FUNCTION meddle() RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN
  PERFORM set_config(''statement_timeout'', ''0'', false); RETURN 1; END';
GRANT USAGE ON SEQUENCE number TO PUBLIC;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with started(SHOP) as server:
        server.admin("REVOKE SELECT ON secret FROM prefkit_reader; GRANT EXECUTE ON FUNCTION meddle() TO prefkit_reader")
        yield server


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, {"postgres": "P"}) as pool:
        yield pool


@pytest.fixture
def run(pool: WorkerPool, server: Server) -> Run:
    """Run one query on the shop and return its result. The time is the wall clock's, so it is long where it is not what is tested."""

    def run(sql: str, timeout_s: float = 20.0, dsn: str = "", order: str = "", **limits: int | bool) -> Result:
        databases = ((dsn or server.dsn(), "1"),)
        return pool.run(PostgresJob(sql, databases, SqlLimits(timeout_s, **limits), order)).last  # type: ignore[arg-type]

    return run


FORBIDDEN = {
    "44 copy to a file": "COPY sale TO '/tmp/prefkit-copy.csv'",
    "44 copy to a program": "COPY sale TO PROGRAM 'cat > /tmp/prefkit-copy'",
    "44 read a file": "SELECT pg_read_file('/etc/passwd')",
    "44 list a folder": "SELECT pg_ls_dir('/')",
    "44 large object": "SELECT lo_import('/etc/passwd')",
    "45 setting": "SET statement_timeout = 0",
    "45 setting by function": "SELECT set_config('statement_timeout', '0', false)",
    "45 setting in a function": "SELECT meddle()",
    "45 role": "SET ROLE postgres",
    "45 read write": "SET TRANSACTION READ WRITE",
    "45 read write by function": "SELECT set_config('transaction_read_only', 'off', false)",
    "45 reset": "RESET ALL",
    "46 load": "LOAD 'auto_explain'",
    "46 extension": "CREATE EXTENSION dblink",
    "46 language": "DO $$ BEGIN NULL; END $$",
    "47 stacked": "SELECT 1; DROP TABLE sale",
    "47 stacked queries": "SELECT 1; SELECT 2",
    "47 end of the transaction": "SELECT 1; COMMIT; DELETE FROM sale",
    "47 query in a text": "SELECT query_to_xml('SELECT 1', true, true, '')",
    "48 drop": "DROP TABLE sale",
    "48 insert": "INSERT INTO sale VALUES (9)",
    "48 insert behind WITH": "WITH x AS (SELECT 9) INSERT INTO sale SELECT * FROM x",
    "48 delete inside WITH": "WITH gone AS (DELETE FROM sale RETURNING *) SELECT * FROM gone",
    "48 returning": "UPDATE sale SET price = 0 RETURNING id",
    "48 behind a comment": "/* SELECT */ -- SELECT\nDELETE FROM sale RETURNING id",
    "48 select into": "SELECT * INTO copy FROM sale",
    "48 temporary table": "CREATE TEMP TABLE t AS SELECT 1",
    "48 sequence": "SELECT nextval('number')",
    "48 lock of rows": "SELECT * FROM sale FOR UPDATE",
    "48 lock of a table": "LOCK TABLE sale",
    "48 advisory lock": "SELECT pg_advisory_lock(1)",
    "48 notify": "SELECT pg_notify('a', 'b')",
    "48 truncate": "TRUNCATE sale",
    "52 what may not be read": "SELECT * FROM secret",
    "52 passwords": "SELECT * FROM pg_authid",
    "57 own process": "SELECT pg_terminate_backend(pg_backend_pid())",
    "57 own cancel": "SELECT pg_cancel_backend(pg_backend_pid())",
    "sleep": "SELECT pg_sleep(60)",
    "seed": "SELECT setseed(0.5)",
    "transaction": "BEGIN",
    "cursor": "DECLARE c CURSOR FOR SELECT 1",
    "prepare": "PREPARE p AS SELECT 1",
    "listen": "LISTEN a",
    "discard": "DISCARD ALL",
    "explain": "EXPLAIN ANALYZE SELECT 1",
    "show": "SHOW ALL",
}


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_everything_but_reading_is_policy(run: Run, server: Server, sql: str, left_in_tmp: Callable[[str], list[str]]) -> None:
    result = run(sql)
    assert result.status == "policy", result
    assert run("SELECT count(*), sum(price) FROM sale").rows == [(3, 6.5)]
    assert left_in_tmp("prefkit-copy*") == []


def test_57_no_query_leaves_a_trace_for_the_next(run: Run) -> None:
    settings = "SELECT name, setting FROM pg_settings WHERE name NOT IN ('transaction_isolation', 'transaction_read_only')"
    settings += " AND name NOT LIKE 'plpgsql.%' ORDER BY name"  # there once the language is loaded
    before = run(settings, timeout_s=5.0).rows
    for sql in [*FORBIDDEN.values(), ENDLESS.format("x"), "SELECT random()", "nonsense"]:
        run(sql, timeout_s=0.1)
        assert run("SELECT id, item FROM sale ORDER BY id").rows == [(1, "pear"), (2, "apple"), (3, "apple")]
    assert run(settings, timeout_s=5.0).rows == before
    assert run("SELECT count(*) FROM pg_cursors WHERE name NOT IN ('', 'prefkit_cursor')").rows == [(0,)]
    assert run("SELECT count(*) FROM pg_prepared_statements").rows == [(0,)]


def test_reasons_name_what_was_tried(run: Run) -> None:
    assert run("DELETE FROM sale").reason == "not a query: DELETE"
    assert run("WITH x AS (SELECT 1) DELETE FROM sale").reason == "not a query: DELETE"
    assert run("SELECT 1; SELECT 2").reason == "more than one statement"
    assert run("SELECT pg_sleep(1)").reason == "function not allowed: pg_sleep"
    assert run("SELECT * FROM secret").reason == "permission denied for table secret"


READS = {
    "SELECT 1 UNION ALL SELECT 2": [(1,), (2,)],
    "VALUES (1), (2)": [(1,), (2,)],
    "TABLE lucky LIMIT 0": [],
    "-- which\nSELECT item FROM sale WHERE id = 1": [("pear",)],
    "/* ; */ WITH a AS (SELECT 1 AS x) SELECT x FROM a": [(1,)],
    "(SELECT 1) -- end": [(1,)],
    ENDLESS.replace("FROM r)", "FROM r WHERE x < 3)").format("x"): [(1,), (2,), (3,)],
    "SELECT price, sold, photo FROM sale WHERE id = 1": [(2, b"timestamp:2024-01-02 08:00:00", b"blob:\x00\xff")],
    "SELECT tags FROM sale WHERE id = 1": [(b'list:["a","b c"]',)],
    "SELECT sold, tags FROM sale WHERE id > 1 ORDER BY id": [(None, None), (b"date:2024-01-01", b"list:[]")],
    "SELECT 'glad'::mood, 5::positive, ROW(1, 'a \"b\"')::place, ROW(NULL, 'x')": [
        ("glad", 5, b'list:[1,"a \\"b\\""]', b'list:[null,"x"]')
    ],
    "SELECT '{{1,2},{3,NULL}}'::int[], ARRAY['sad','glad']::mood[], '{NULL,\"NULL\"}'::text[]": [
        (b"list:[[1,2],[3,null]]", b'list:["sad","glad"]', b'list:[null,"NULL"]')
    ],
    "SELECT 'a '::char(4), '1234.50'::money, B'0101', 'NaN'::float8, 'infinity'::date, '0044-03-15 BC'::date": [
        ("a", 1234.5, b"bits:0101", b"number:nan", b"date:infinity", b"date:0044-03-15 BC")
    ],
    "SELECT interval '1 month -2 days 03:00:00.5', interval '28 days 3:0:0.5'": [(b"interval:2430000500000", b"interval:2430000500000")],
    "SELECT time '10:00', timetz '12:00+02', true": [(b"time:10:00:00", b"time:10:00:00", b"bool:true")],
    "SELECT '{\"b\": 1.0, \"a\": null}'::json, '{\"a\": null, \"b\": 1}'::jsonb": [(b'json:{"a":null,"b":1}', b'json:{"a":null,"b":1}')],
    "SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid": [(b"uuid:a0eebc999c0b4ef8bb6d6bb9bd380a11",)],
    "SELECT int4range(1, 3), '::1'::inet": [(b"other:int4range:[1,3)", b"other:inet:::1")],
    "SELECT 9223372036854775807, 170141183460469231731687303715884105728::numeric": [(2**63 - 1, 2**127)],
    "SELECT EXTRACT(year FROM DATE '2024-05-01'), sum(n) FROM generate_series(1, 3) n": [(2024, 6)],
}  # fmt: skip


@pytest.mark.parametrize("sql", READS)
def test_every_kind_of_reading_works(run: Run, sql: str) -> None:
    result = run(sql)
    assert (result.status, result.rows) == ("ok", READS[sql]), result.reason
    assert [[type(value) for value in row] for row in result.rows] == [[type(value) for value in row] for row in READS[sql]]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT nme FROM sale", "no such column: nme"),
        ("SELECT sale.nme FROM sale", "no such column: sale.nme"),
        ("SELECT * FROM sales", "no such table: sales"),
        ("SELECT sales.id FROM sale", "no such table: sales"),
        ("SELECT foo(1)", "no such function: foo"),
        ("SELECT id FROM sale a, sale b", "ambiguous column name: id"),
        ("SELECT (1", "syntax error: incomplete input"),
        ("SELECT FROM WHERE", 'syntax error near "WHERE"'),
        ("nonsense", 'syntax error near "nonsense"'),
        ("SELECT $1", "the query has parameters"),
        ("", "syntax error: incomplete input"),
        ("-- only this", "syntax error: incomplete input"),
        ("SELECT '\udce9'", "syntax error: not UTF-8"),
        ("SELECT '\x00'", "syntax error: null character"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT 'a'::int", 'invalid input syntax for type integer: "a"'),
    ],
)
def test_errors_have_uniform_words(run: Run, sql: str, reason: str) -> None:
    assert (run(sql).status, run(sql).reason) == ("error", reason)


@pytest.mark.parametrize("sql", ["(" * 3000, "SELECT $$", "SELECT 1 /* c", "SELECT %s", "\ufffd"])
def test_odd_text_is_an_error_and_the_worker_lives(run: Run, pool: WorkerPool, sql: str) -> None:
    replaced = pool.replaced
    assert run(sql).status == "error"
    assert run("SELECT 1").rows == [(1,)]
    assert pool.replaced == replaced


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS.format("count(*)"),
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT count(*) FROM generate_series(1, 3000) a, generate_series(1, 3000) b, generate_series(1, 3000) c",
        "SELECT repeat('x', 300000000) || repeat('y', 300000000) || repeat('z', 300000000)",
    ],
    ids=["49 recursive CTE", "49 count", "49 cross join", "50 long text"],
)
def test_49_endless_queries_are_cancelled(run: Run, pool: WorkerPool, server: Server, sql: str) -> None:
    replaced = pool.replaced
    result = run(sql, timeout_s=0.3)
    assert (result.status, result.reason) == ("timeout", "time limit: wall clock")
    assert pool.replaced == replaced
    assert run("SELECT 1").rows == [(1,)]
    active = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'prefkit_reader' AND state = 'active'"
    deadline = time.monotonic() + 30
    while server.admin(active) != [(0,)] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.admin(active) == [(0,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (ENDLESS.format("x"), "limit: rows (more than 10000)"),
        ("SELECT generate_series(1, 1000000000)", "limit: rows (more than 10000)"),
        ("SELECT repeat('x', 30000) FROM generate_series(1, 1000)", "limit: bytes (more than 2000000)"),
        ("SELECT repeat('x', 3000000)", "limit: bytes (more than 2000000)"),
        ("SELECT repeat('x', 2000000000)", "limit: memory"),
        ("SELECT repeat(md5(a::text), 50) FROM generate_series(1, 300000) a ORDER BY 1", "limit: temporary storage"),
    ],
    ids=["51 rows", "56 series", "51 bytes", "51 value", "51 largest value", "51 sort"],
)
def test_51_large_results_are_limits(run: Run, sql: str, reason: str) -> None:
    result = run(sql, timeout_s=60.0)
    assert (result.status, result.reason) == ("limit", reason)
    assert run("SELECT 1").rows == [(1,)]


def test_truncate_keeps_the_first_rows(run: Run) -> None:
    result = run("SELECT generate_series(1, 1000000000)", rows=3, truncate=True)
    assert (result.status, result.rows, result.truncated) == ("ok", [(1,), (2,), (3,)], True)
    result = run("SELECT repeat('x', 800), 'sad'::mood FROM generate_series(1, 100000)", bytes=3000, truncate=True)
    assert (result.status, result.rows, result.truncated) == ("ok", [("x" * 800, "sad")] * 3, True)
    assert run("SELECT 1", rows=3, truncate=True).truncated is False


@pytest.mark.parametrize(
    ("sql", "uses"),
    [
        ("SELECT random()", ("random",)),
        ("SELECT item FROM sale ORDER BY RANDOM()", ("random",)),
        ("SELECT gen_random_uuid()", ("random",)),
        ("SELECT * FROM sale TABLESAMPLE bernoulli (50)", ("random",)),
        ("SELECT * FROM sale TABLESAMPLE bernoulli (50) REPEATABLE (1)", ()),
        ("SELECT n FROM lucky", ("random",)),
        ("SELECT now()", ("clock",)),
        ("SELECT id FROM sale WHERE sold < now()", ("clock",)),
        ("SELECT CURRENT_DATE", ("clock",)),
        ("SELECT localtimestamp", ("clock",)),
        ("SELECT clock_timestamp()", ("clock",)),
        ("SELECT age(timestamp '2024-01-01')", ("clock",)),
        ("SELECT age(timestamp '2024-01-01', timestamp '2023-01-01')", ()),
        ("SELECT day FROM today", ("clock",)),
        ("SELECT this_year()", ("clock",)),
        ("SELECT date 'today'", ("clock",)),
        ("SELECT 'now'::timestamptz", ("clock",)),
        ("SELECT id FROM sale WHERE sold > 'yesterday'", ("clock",)),
        ("SELECT now(), random()", ("clock", "random")),
        ("SELECT id FROM sale WHERE item = 'now'", ()),
        ("SELECT id FROM sale WHERE item IN ('then', 'now')", ()),
        ("SELECT 'today' AS x", ()),
        ("SELECT to_char(date '2024-01-01', 'YYYY')", ()),
    ],
)
def test_53_clock_and_random_are_seen(run: Run, sql: str, uses: tuple[str, ...]) -> None:
    result = run(sql)
    assert (result.status, result.uses) == ("ok", uses), result.reason


def test_54_rows_in_another_order(run: Run) -> None:
    joined = {run("SELECT string_agg(id::text, '') FROM sale", order=order).rows[0][0] for order in ("reverse", "mixed")}
    assert len(joined) == 2
    assert run("SELECT string_agg(id::text, '') FROM sale", order="forward").rows == [("123",)]
    for order in ("forward", "reverse", "mixed"):
        result = run("SELECT s.item, count(*) FROM sale s JOIN today ON true GROUP BY s.item ORDER BY 1", order=order)
        assert (result.status, result.rows, result.faithful) == ("ok", [("apple", 2), ("pear", 1)], False)


POWERS = {
    "superuser": ("CREATE ROLE harm LOGIN SUPERUSER", "is a superuser"),
    "roles": ("CREATE ROLE harm LOGIN CREATEROLE", "may create roles"),
    "databases": ("CREATE ROLE harm LOGIN CREATEDB", "may create databases"),
    "files": ("CREATE ROLE harm LOGIN IN ROLE pg_read_server_files", "is a member of pg_read_server_files"),
    "writer": ("CREATE ROLE harm LOGIN; GRANT INSERT ON sale TO harm", "may write or owns tables (public.sale)"),
    "owner": ("CREATE ROLE harm LOGIN; CREATE TABLE own(x int); ALTER TABLE own OWNER TO harm", "may write or owns tables (public.own)"),
}  # fmt: skip


@pytest.mark.parametrize("power", POWERS)
def test_a_role_that_could_do_harm_is_refused_with_the_sql_that_mends_it(run: Run, server: Server, power: str) -> None:
    made, problem = POWERS[power]
    server.admin(made)
    try:
        result = run("SELECT 1", dsn=server.dsn("harm"))
        assert result.status == "database"
        assert problem in result.reason
        assert right_role("shop") in result.reason
        assert PASSWORD not in result.reason
    finally:
        server.admin("DROP TABLE IF EXISTS own; REVOKE ALL ON sale FROM harm; DROP ROLE harm")


@pytest.mark.parametrize(
    ("dsn", "status"),
    [
        (f"postgresqlx://me:{PASSWORD}@/shop", "database"),
        (f"host=x passwort={PASSWORD}", "database"),
        (f"postgresql://prefkit_reader:{PASSWORD}@/shop?host=/tmp/prefkit-nowhere", "infra"),
    ],
)
def test_a_connection_that_fails_names_no_secret(run: Run, dsn: str, status: str) -> None:
    result = run("SELECT 1", dsn=Dsn(dsn))
    assert (result.status, PASSWORD in result.reason) == (status, False)


def test_a_database_that_is_not_there_is_the_tasks_fault(run: Run, server: Server) -> None:
    result = run("SELECT 1", dsn=server.dsn(database="nowhere"))
    assert (result.status, "does not exist" in result.reason, PASSWORD in result.reason) == ("database", True, False)


def test_a_connection_string_shows_its_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    dsn = Dsn(f"postgresql://me:{PASSWORD}@db.example/shop?sslmode=require")
    job = PostgresJob("SELECT 1", ((dsn, ""),), SqlLimits())
    for shown in (repr(dsn), str(dsn), f"{dsn}", f"{dsn!r}", repr(job), "%s" % dsn, str({"dsn": dsn})):  # noqa: UP031
        assert PASSWORD not in shown
        assert "me" not in shown.replace("timeout_s", "").replace("Dsn", "")[:20]
    assert str(dsn) == "db.example/shop"
    assert Dsn(f"host=db.example dbname=shop user=me password='{PASSWORD}'").place == "db.example/shop"
    assert json.loads(job.line())["databases"][0][0] == dsn.whole  # over the pipe it is whole
    assert scrub(f"no: {dsn.whole} and {PASSWORD}", dsn) == "no: *** and ***"
    for odd in ("p@ss", "p/ss", "p@s/s"):  # signs that should have been written as %40 and %2F
        assert Dsn(f"postgresql://me:{odd}@db.example/shop").place == "db.example/shop"
    assert Dsn("dbname=shop password='x host=evil'").place == "local/shop"
    assert scrub("user p@ss", Dsn("postgresql://me:p%40ss@db.example/shop")) == "user ***"
    assert scrub("user p1", Dsn("postgresql:///shop?password=p1&sslmode=require")) == "user ***"
    monkeypatch.setenv("SHOP_DSN", dsn.whole)
    assert from_environment("SHOP_DSN") == dsn
    monkeypatch.delenv("SHOP_DSN")
    with pytest.raises(DatabaseError, match="SHOP_DSN"):
        from_environment("SHOP_DSN")


def test_the_fingerprint_changes_with_the_data(pool: WorkerPool, server: Server) -> None:
    def look() -> str:
        found = pool.run(PostgresLook(((server.dsn(), ""),))).last
        assert (found.status, found.notes, len(found.hash)) == ("ok", (), 64)
        assert found.server
        return found.hash

    first = look()
    assert look() == first
    for change, undo in (
        ("INSERT INTO sale VALUES (4, 'fig')", "DELETE FROM sale WHERE id = 4"),
        ("UPDATE sale SET item = 'fig' WHERE id = 1", "UPDATE sale SET item = 'pear' WHERE id = 1"),
        ("CREATE VIEW more AS SELECT 1", "DROP VIEW more"),
    ):
        server.admin(change)
        assert look() != first
        server.admin(undo)
        assert look() == first


def test_a_lost_connection_is_made_anew(run: Run, server: Server) -> None:
    assert run("SELECT 1").rows == [(1,)]
    server.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'prefkit_reader'")
    assert run("SELECT 2").rows == [(2,)]


def test_no_query_outlives_a_worker_that_is_killed(server: Server) -> None:
    active = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'prefkit_reader' AND state = 'active' AND query LIKE 'FETCH%'"
    with WorkerPool(1, {"postgres": "P"}) as pool:
        pool.submit(PostgresJob("SELECT count(*) FROM generate_series(1, 1000000000000)", ((server.dsn(), ""),), SqlLimits(60.0)))
        deadline = time.monotonic() + 30
        while server.admin(active) == [(0,)] and time.monotonic() < deadline:
            pool.pump(0.05)
        assert server.admin(active) == [(1,)]
    deadline = time.monotonic() + 30
    while server.admin(active) != [(0,)] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.admin(active) == [(0,)]
