"""Verdicts: one for each check, in order, the same each time, whatever happens to workers, cache and files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefkit.errors import DatabaseError
from prefkit.verify.query import query
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import SCORED, Status, Verdict, score_of

ROOT = Path(__file__).resolve().parents[2]
Verify = Callable[..., Verdict]
GOLD = "SELECT name, price FROM item WHERE kind = 'fruit'"
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
STALL = (
    "WITH b AS (SELECT replace(hex(zeroblob(30000)), '0', 'a') AS t), r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20000) "
    "SELECT sum(instr(t || t, substr(t, 1, 30000 + x % 7) || 'b')) FROM b, r"
)

ANSWERS = {
    f"```sql\n{GOLD};\n```": ("PASS", "same rows"),
    f"{GOLD} ORDER BY name": ("PASS", "same rows"),
    "SELECT name, price + 1e-9 FROM item WHERE kind = 'fruit'": ("PASS", "same rows"),
    "SELECT name, CAST(price AS INTEGER) FROM item WHERE kind = 'fruit'": ("WRONG", "wrong rows"),
    "SELECT name, CAST(price AS TEXT) FROM item WHERE kind = 'fruit'": ("WRONG", "wrong rows"),
    "SELECT price, name FROM item WHERE kind = 'fruit'": ("WRONG", "wrong rows"),
    "SELECT name, price FROM item WHERE id < 3": ("PASS", "same rows"),
    "SELECT name, price FROM item WHERE name IN ('pear', 'apple')": ("WRONG", "no rows (data instance 2)"),
    "SELECT name FROM item": ("WRONG", "wrong number of columns: 1, expected 2"),
    "SELECT name, price FROM item": ("WRONG", "wrong number of rows: 4, expected 2"),
    "SELECT name, price FROM item WHERE 0": ("WRONG", "no rows"),
    "I would rather not.": ("WRONG", "no SQL in the answer"),
    "name, price FROM item WHERE kind = 'fruit'": ("WRONG", "no SQL in the answer"),
    "SELECT nme FROM item": ("CRASH", "no such column: nme"),
    "SELECT name FROM items": ("CRASH", "no such table: items"),
    "SELECT name FRM item": ("CRASH", 'syntax error near "item"'),
    "select name frm item x": ("CRASH", 'syntax error near "item"'),
    "SELECT name, FROM item": ("CRASH", 'syntax error near "FROM"'),
    "SELECT name FROM item WHERE (price": ("CRASH", "syntax error: incomplete input"),
    "SELECT 'a": ("CRASH", 'syntax error: unrecognized token: "\'a"'),
    "SELECT name FROM item WHERE price = ?": ("CRASH", "the query has parameters"),
    "SELECT abs(-9223372036854775808)": ("CRASH", "integer overflow"),
    "DROP TABLE item": ("POLICY", "not a query: DROP"),
    f"{GOLD}; DROP TABLE item": ("POLICY", "more than one statement"),
    "ATTACH 'x' AS y": ("POLICY", "not a query: ATTACH"),
    "SELECT name, price FROM item WHERE kind = 'fruit' AND date('now') > '2000'": ("POLICY", "reads the clock"),
    "SELECT name, price FROM item WHERE kind = 'fruit' ORDER BY random()": ("POLICY", "uses random()"),
    ENDLESS: ("TIMEOUT", "time limit: steps"),
    STALL: ("TIMEOUT", "time limit: processor time"),
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r": ("LIMIT", "limit: rows (more than 10000)"),
    "SELECT '" + "x" * 120_000 + "'": ("LIMIT", "limit: query longer than 100000 characters"),
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer[:40])
def test_statuses_and_reasons(verify: Verify, answer: str) -> None:
    verdict = verify(answer, GOLD, timeout_s=0.2)
    assert (verdict.status, verdict.reason) == ANSWERS[answer]
    assert verdict.score == (1.0 if verdict.status == "PASS" else 0.0)
    assert (verdict.feedback is None) == (verdict.status == "PASS")
    assert (verdict.id, verdict.trust, verdict.tier, verdict.versions["judge"]) == ("x", "executed", "P", "sql-compare/1")


def test_any_of_several_golds_suffices(verify: Verify) -> None:
    golds = ("SELECT name FROM item", "SELECT id FROM item", "SELECT broken", "SELECT id FROM item LIMIT 1")
    assert verify("SELECT id FROM item", golds).status == "PASS"
    assert verify("SELECT name FROM item", golds).status == "PASS"
    assert verify("SELECT kind FROM item", golds).status == "WRONG"
    assert verify("SELECT id FROM item LIMIT 1", golds).status == "WRONG"
    assert verify("SELECT id FROM item", golds[2:]).reason == "gold fails: no such column: broken"


def test_all_instances_must_agree(verify: Verify, shops: tuple[str, str]) -> None:
    gold, answer = "SELECT COUNT(DISTINCT note) FROM sale", "SELECT COUNT(*) - 2 FROM sale"
    assert verify(answer, gold, databases=shops[:1]).status == "PASS"
    verdict = verify("SELECT COUNT(note) FROM sale", "SELECT COUNT(DISTINCT item_id) FROM sale")
    assert verdict.status == "PASS"
    verdict = verify("SELECT 3", "SELECT COUNT(DISTINCT item_id) FROM sale WHERE qty > 1 OR id = 4")
    assert verdict.status == "PASS"
    verdict = verify("SELECT COUNT(*) FROM item WHERE price > 3", "SELECT COUNT(*) FROM item WHERE price = 3.5")
    assert (verdict.status, verdict.reason) == ("WRONG", "wrong rows (data instance 2)")
    assert verdict.feedback is not None and "other data" in verdict.feedback


def test_columns_in_any_order(verify: Verify) -> None:
    assert verify("SELECT price, name FROM item WHERE kind = 'fruit'", GOLD, columns="any_order").status == "PASS"
    assert verify("SELECT price, name FROM item WHERE kind = 'fruit'", GOLD).status == "WRONG"


def test_feedback_is_the_same_whatever_the_gold(verify: Verify) -> None:
    """It is made from the answer's own result: nothing of the gold can be in it."""
    for answer in ("SELECT name, NULL AS x FROM item", "SELECT kind FROM item", "SELECT name FROM item WHERE 0", "SELECT nme", "nothing"):
        golds = ("SELECT 'secret'", "SELECT 42, 43 FROM item", GOLD)
        said = {verify(answer, gold).feedback or "" for gold in golds}
        assert len(said) == 1
        assert "secret" not in said.pop()


def test_feedback_says_what_is_odd(verify: Verify) -> None:
    def said(answer: str) -> str:
        return verify(answer, "SELECT 'secret'").feedback or ""

    assert said("SELECT name, NULL AS x FROM item") == (
        "The query runs, but its result is wrong. It returns 4 rows of 2 columns (name, x); first rows: ('pear', NULL); ('apple', NULL); "
        "('leek', NULL); every value of x is NULL."
    )
    assert said("SELECT kind FROM item").endswith("only 2 of its rows are different from each other.")
    assert said("SELECT 1 FROM item").endswith("only 1 of its rows is different from each other.")
    assert said("SELECT name FROM item WHERE 0").endswith("It returns no rows; columns: name.")
    assert said("SELECT nme FROM item") == "The query does not run: no such column: nme."
    assert len(said(f"SELECT {', '.join(['body'] * 50)} FROM (SELECT hex(zeroblob(500)) AS body)")) < 1500


def make(shops: tuple[str, str], number: int = 120, **options: object) -> list[SqlCheck]:
    answers = [answer for answer in ANSWERS if answer != STALL]
    return [SqlCheck(str(i), f"{answers[i % len(answers)]}", (GOLD,), shops, 0.2, **options) for i in range(number)]  # type: ignore[arg-type]


def short(verdicts: Iterator[Verdict] | list[Verdict]) -> list[tuple[str, str, str]]:
    return [(verdict.id, str(verdict.status), verdict.reason) for verdict in verdicts]


def test_one_verdict_for_each_in_input_order(shops: tuple[str, str]) -> None:
    checks = make(shops)
    with Scheduler(workers=2) as scheduler:
        verdicts = list(scheduler.verify(checks))
        counts = scheduler.counts
    assert [verdict.id for verdict in verdicts] == [check.id for check in checks]
    assert counts["checks"] == 120 and counts["golds"] == 1
    different = len({verdict.key for verdict in verdicts})
    assert different < len({check.answer for check in checks})  # answers without a query are the same
    assert counts["cached"] == 120 - different
    assert sum(verdict.cached for verdict in verdicts) == 120 - different
    assert counts["executions"] < 2 * different + 12  # each answer once on two instances, and the gold with its checks


def test_verdicts_stream(shops: tuple[str, str]) -> None:
    """A verdict is there before the next check is asked for, once it can be."""
    seen: list[str] = []

    def checks() -> Iterator[SqlCheck]:
        for i in range(5):
            if i == 4:
                end = time.monotonic() + 10
                while time.monotonic() < end and not seen:
                    yield SqlCheck(f"more {time.monotonic()}", GOLD, (GOLD,), shops)
            yield SqlCheck(str(i), f"SELECT {i}", (GOLD,), shops)

    with Scheduler(workers=1) as scheduler:
        for verdict in scheduler.verify(checks()):
            seen.append(verdict.id)
    assert [name for name in seen if not name.startswith("more")] == ["0", "1", "2", "3", "4"]


def test_cancel_keeps_the_scheduler_usable(shops: tuple[str, str]) -> None:
    with Scheduler(workers=1) as scheduler:
        first = scheduler.verify(
            [SqlCheck(str(i), f"SELECT {i}, 'x' FROM item", (f"SELECT name, {i} FROM item",), shops) for i in range(200)]
        )
        next(first)
        first.close()  # type: ignore[attr-defined]
        executions = scheduler.counts["executions"]
        again = list(
            scheduler.verify([SqlCheck(str(i), f"SELECT name, {i} FROM item", (f"SELECT name, {i} FROM item",), shops) for i in range(200)])
        )
        assert {verdict.status for verdict in again} == {"PASS"}
        assert executions < 400  # of 2,000


def test_two_iterators_at_once(shops: tuple[str, str]) -> None:
    with Scheduler(workers=2) as scheduler:
        one, two = scheduler.verify(make(shops, 60)), scheduler.verify(make(shops, 60))
        mixed = [(next(one), next(two)) for _ in range(30)]
        one.close()  # type: ignore[attr-defined]
        rest = list(two)
    assert short([pair[0] for pair in mixed]) == short([pair[1] for pair in mixed])
    assert len(rest) == 30


def test_cache_gives_the_same_verdicts_without_running_anything(shops: tuple[str, str], tmp_path: Path) -> None:
    with Scheduler(workers=2, cache=tmp_path / "cache.sqlite") as scheduler:
        first = list(scheduler.verify(make(shops)))
    with Scheduler(workers=2, cache=tmp_path / "cache.sqlite") as scheduler:
        second = list(scheduler.verify(make(shops)))
        assert scheduler.counts["executions"] == 0
        assert all(verdict.cached for verdict in second)
        # A new answer needs its own run, but not its gold's.
        (verdict,) = scheduler.verify([SqlCheck("new", "SELECT 'new'", (GOLD,), shops, 0.2)])
        assert verdict.status == "WRONG"
        assert (scheduler.counts["executions"], scheduler.counts["golds"]) == (2, 0)
    assert short(first) == short(second)
    assert [verdict.feedback for verdict in first] == [verdict.feedback for verdict in second]
    assert [verdict.key for verdict in first] == [verdict.key for verdict in second]


def test_the_key_holds_all_that_decides(shops: tuple[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    shutil.copy(shops[0], copy)
    base = SqlCheck("a", "SELECT name FROM item", ("SELECT name FROM item",), (shops[0],))
    same = [
        SqlCheck("b", "```\nSELECT name FROM item;\n```", base.golds, base.databases),
        SqlCheck("c", base.answer, base.golds, (str(copy),)),
    ]
    other = [
        SqlCheck("d", "SELECT name  FROM item", base.golds, base.databases),
        SqlCheck("e", base.answer, ("SELECT name FROM item ORDER BY 1",), base.databases),
        SqlCheck("f", base.answer, base.golds, (shops[1],)),
        SqlCheck("g", base.answer, base.golds, shops),
        SqlCheck("h", base.answer, base.golds, base.databases, 1.0),
        SqlCheck("i", base.answer, base.golds, base.databases, 2.0, "any_order"),
    ]
    with Scheduler(workers=1) as scheduler:
        keys = {verdict.id: verdict.key for verdict in scheduler.verify([base, *same, *other])}
    assert keys["a"] == keys["b"] == keys["c"]
    assert len(set(keys.values())) == 1 + len(other)


def test_a_changed_database_is_judged_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"

    def build(value: int) -> None:
        new = tmp_path / "new.sqlite"
        connection = sqlite3.connect(new)
        connection.execute("CREATE TABLE t(x)")
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        connection.commit()
        connection.close()
        new.replace(path)

    check = SqlCheck("a", "SELECT 1", ("SELECT x FROM t",), (str(path),))
    with Scheduler(workers=1, cache=tmp_path / "cache.sqlite") as scheduler:
        statuses = []
        for value in (1, 2, 1):
            build(value)
            statuses.append(str(next(scheduler.verify([check])).status))
            assert query(scheduler, str(path), "SELECT x FROM t").rows == [(value,)]
        path.unlink()
        (missing,) = scheduler.verify([check])
        build(1)
        (found,) = scheduler.verify([check])
    assert statuses == ["PASS", "WRONG", "PASS"]
    assert (missing.status, missing.reason) == ("UNVERIFIABLE", f"database not found: {path}")
    assert found.status == "PASS"


def test_a_database_with_unfinished_writes_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t(x)")
    connection.commit()
    with Scheduler(workers=1) as scheduler:
        (verdict,) = scheduler.verify([SqlCheck("a", "SELECT 1", ("SELECT 1",), (str(path),))])
        assert verdict.status == "UNVERIFIABLE" and "unfinished writes" in verdict.reason
        connection.close()
        (verdict,) = scheduler.verify([SqlCheck("a", "SELECT 1", ("SELECT 1",), (str(path),))])
        assert verdict.status == "PASS"


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"golds": ()}, "no gold"), ({"databases": ()}, "no database"), ({"databases": ("\0",)}, "database cannot be read: \0")],
)
def test_checks_that_ask_for_nothing(verify: Verify, change: dict[str, tuple[str, ...]], reason: str) -> None:
    verdict = verify("SELECT 1", **({"golds": GOLD} | change))
    assert (verdict.status, verdict.reason) == ("UNVERIFIABLE", reason)


def test_a_file_that_is_no_database_is_the_tasks_fault(verify: Verify, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_text("hello " * 1000)
    assert verify("SELECT 1", "SELECT 1", databases=(str(path),)).reason == "database cannot be read: file is not a database"


def test_text_that_is_not_utf8_can_be_written(verify: Verify, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "latin.sqlite")
    connection.execute("CREATE TABLE t(x TEXT)")
    connection.execute("INSERT INTO t VALUES (CAST(x'61e9' AS TEXT))")
    connection.commit()
    connection.close()
    databases = (str(tmp_path / "latin.sqlite"),)
    assert verify("SELECT x FROM t", "SELECT x FROM t", databases=databases).status == "PASS"
    wrong = verify("SELECT x, 1 FROM t", "SELECT x FROM t", databases=databases)
    assert wrong.feedback is not None and "'a?'" in wrong.feedback
    assert json.dumps(wrong.to_dict(), ensure_ascii=False).encode()


def test_killed_workers_change_no_verdict(shops: tuple[str, str]) -> None:
    checks = make(shops, 200)
    with Scheduler(workers=2) as scheduler:
        calm = short(scheduler.verify(checks))
    random.seed(2)
    with Scheduler(workers=2) as scheduler:
        stormy = []
        for i, verdict in enumerate(
            scheduler.verify([SqlCheck(c.id, c.answer + f" -- {i // 60}", c.golds, c.databases, 0.2) for i, c in enumerate(checks)])
        ):
            stormy.append(verdict)
            ready = [worker for worker in scheduler._pool._workers if worker.ready]
            if i % 9 == 0 and ready:
                os.kill(random.choice(ready).process.pid, signal.SIGKILL)
    assert [(name, status) for name, status, _ in calm] == [(v.id, str(v.status)) for v in stormy]


def test_no_verdict_flips_on_a_busy_machine(shops: tuple[str, str]) -> None:
    """Queries around the time limit get the same verdict while other processes fight for the processor."""
    sizes = [1000 * 2**k for k in range(1, 12)]
    checks = [
        SqlCheck(
            str(size),
            f"WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT {size}) SELECT count(*) FROM r",
            (GOLD,),
            shops,
            0.1,
        )
        for size in sizes
    ]
    with Scheduler(workers=2) as scheduler:
        calm = short(scheduler.verify(checks))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        with Scheduler(workers=2) as scheduler:
            assert short(scheduler.verify(checks)) == calm
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert {status for _, status, _ in calm} == {"WRONG", "TIMEOUT"}


def test_query_shows_rows(scheduler: Scheduler, shops: tuple[str, str]) -> None:
    result = query(scheduler, shops[0], "SELECT name, price FROM item ORDER BY id", max_rows=2)
    assert (result.columns, result.rows, result.status, result.reason, result.truncated) == (
        ["name", "price"],
        [("pear", 2.0), ("apple", 3.5)],
        "PASS",
        "",
        True,
    )
    assert query(scheduler, shops[0], "SELECT date('now')").status == "PASS"
    assert query(scheduler, shops[0], "SELECT nme").reason == "no such column: nme"
    assert query(scheduler, shops[0], "DROP TABLE item").status == "POLICY"
    assert query(scheduler, shops[0], ENDLESS, timeout_s=0.1).status == "TIMEOUT"
    assert query(scheduler, "nowhere.sqlite", "SELECT 1").reason == "database not found: nowhere.sqlite"
    assert query(scheduler, shops[0], "SELECT x'00ff', NULL, 1e999").rows == [(b"\x00\xff", None, float("inf"))]


def test_query_between_verdicts(shops: tuple[str, str]) -> None:
    with Scheduler(workers=2) as scheduler:
        seen = []
        for verdict in scheduler.verify(make(shops, 40)):
            seen.append(verdict.id)
            assert query(scheduler, shops[0], f"SELECT {len(seen)}").rows == [(len(seen),)]
    assert seen == [str(i) for i in range(40)]


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(max_size=40).map(lambda text: f"SELECT {text} FROM item"),
        st.binary(max_size=30).map(lambda raw: "SELECT " + raw.decode("utf-8", "surrogateescape")),
    )
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_gets_a_verdict(verify: Verify, answer: str) -> None:
    verdict = verify(answer, GOLD, timeout_s=0.2)
    assert verdict.status in SCORED
    json.dumps(verdict.to_dict())
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict


def test_scores() -> None:
    assert [score_of(status) for status in Status] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None, None, None]


def test_a_fault_of_the_verifier_is_never_a_score(shops: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    with Scheduler(workers=1) as scheduler:
        monkeypatch.setattr("prefkit.verify.sql_verifier.judge", fail)
        (verdict,) = scheduler.verify([SqlCheck("a", GOLD, (GOLD,), shops)])
        assert (verdict.status, verdict.score, verdict.reason) == ("INFRA", None, "the verifier failed: RuntimeError: planted")
        monkeypatch.undo()
        (verdict,) = scheduler.verify([SqlCheck("a", GOLD, (GOLD,), shops)])
        assert verdict.status == "PASS"  # and it is not kept


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_text("hello " * 1000)
    with pytest.raises(DatabaseError, match="cache"):
        Scheduler(cache=path)


PROGRAM = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from prefkit.verify.scheduler import Scheduler
    from prefkit.verify.sql import SqlCheck
    cache, seed, *shops = sys.argv[1:]
    checks = [SqlCheck(str(i), f"SELECT name, {i % 50} FROM item", ("SELECT name, 7 FROM item",), tuple(shops)) for i in range(400)]
    with Scheduler(workers=1, cache=Path(cache)) as scheduler:
        for i, verdict in enumerate(scheduler.verify(checks)):
            print(verdict.id, verdict.status, flush=i % 10 == 0)
    """
)


def start(cache: Path, shops: tuple[str, str], seed: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(cache), str(seed), *shops]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_several_processes_share_a_cache(shops: tuple[str, str], tmp_path: Path) -> None:
    processes = [start(tmp_path / "cache.sqlite", shops) for _ in range(3)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert outputs[0][0].count("PASS") == 8
    connection = sqlite3.connect(tmp_path / "cache.sqlite")
    assert connection.execute("SELECT count(*) FROM entries").fetchone() == (51,)  # fifty verdicts and a gold
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_killed_process_leaves_a_cache_that_the_next_one_uses(shops: tuple[str, str], tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    victim = start(cache, shops)
    assert victim.stdout is not None and victim.stderr is not None
    for _ in range(30):
        victim.stdout.readline()
    victim.kill()
    victim.wait()
    victim.stdout.close()
    victim.stderr.close()
    out, errors = (process := start(cache, shops)).communicate(timeout=120)
    assert process.returncode == 0, errors
    assert [line.split()[0] for line in out.splitlines()] == [str(i) for i in range(400)]
    assert out.count("PASS") == 8
