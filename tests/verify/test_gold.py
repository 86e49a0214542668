"""Golds that are fit to judge by, golds that are not, and what order means."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.verify.gold_text import key_columns, read_gold, with_columns
from prefkit.verify.verdict import Verdict

Verify = Callable[..., Verdict]

FIT = [
    "SELECT name FROM item",
    "SELECT name FROM item ORDER BY price",  # ties, but all rows are there
    "SELECT name FROM item ORDER BY price DESC, name LIMIT 2",
    "SELECT name, price FROM item ORDER BY 2 DESC",
    "SELECT price FROM item ORDER BY price DESC LIMIT 2",
    "SELECT kind, COUNT(*) AS n FROM item GROUP BY kind ORDER BY n DESC, kind",
    "SELECT i.name, SUM(s.qty) AS total FROM sale s JOIN item i ON i.id = s.item_id GROUP BY i.id ORDER BY total / 2.0 DESC",
    "SELECT kind FROM item UNION SELECT note FROM sale ORDER BY 1",
    "SELECT name FROM item UNION ALL SELECT kind FROM item",
    "SELECT DISTINCT kind FROM item ORDER BY kind DESC",
    "SELECT DISTINCT i.kind FROM item i ORDER BY i.kind",
    "WITH best AS (SELECT MAX(price) AS p FROM item) SELECT name FROM item, best WHERE price = p",
    "SELECT name, RANK() OVER (ORDER BY price) FROM item",
    "SELECT kind, MAX(price) FROM item GROUP BY kind HAVING COUNT(*) > 1",
    "SELECT COUNT(*) FROM sale WHERE qty > 1000",
    "SELECT name FROM item WHERE EXISTS (SELECT 1 FROM sale WHERE item_id = item.id LIMIT 1)",
    "VALUES (1), (2)",
    "SELECT note FROM sale ORDER BY note COLLATE NOCASE",
    "SELECT group_concat(name, ', ') FROM (SELECT name FROM item ORDER BY name)",
    "SELECT CASE WHEN price IS DISTINCT FROM 3.5 THEN name END AS x FROM item ORDER BY price, x"
    if sqlite3.sqlite_version_info >= (3, 39)
    else "SELECT 1",
    "SELECT rowid, name FROM item",
    "-- names\nSELECT name FROM item;",
]


@pytest.mark.parametrize("gold", FIT)
def test_golds_that_are_fit_match_themselves(verify: Verify, gold: str) -> None:
    verdict = verify(gold, gold)
    assert (verdict.status, verdict.score, verdict.reason) == ("PASS", 1.0, "same rows")


UNFIT = {
    "SELECT nme FROM item": "gold fails: no such column: nme",
    "SELECT FROM item": 'gold fails: near "FROM": syntax error',
    "DELETE FROM item": "gold is not allowed: not a query: DELETE",
    "SELECT 1; SELECT 2": "gold is not allowed: more than one statement",
    ";": "gold is empty text",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r": "gold fails: time limit: steps",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r": "gold fails: limit: rows (more than 10000)",
    "SELECT name FROM item WHERE price > 100": "gold is empty on every data instance",
    "SELECT COUNT(*) FROM sale WHERE day > date('now')": "gold reads the clock",
    "SELECT CURRENT_DATE": "gold reads the clock",
    "SELECT COUNT(*) FROM recent": "gold reads the clock",
    "SELECT name FROM item ORDER BY random()": "gold uses random()",
    "SELECT name FROM item LIMIT 2": "gold is ambiguous: LIMIT cuts through ties",
    "SELECT name FROM item ORDER BY kind LIMIT 1": "gold is ambiguous: LIMIT cuts through ties",
    "SELECT name FROM item ORDER BY price DESC LIMIT 1 OFFSET 1": "gold is ambiguous: LIMIT cuts through ties",
    "SELECT name, kind FROM item GROUP BY kind": "gold is ambiguous: its result depends on the order in which rows are stored",
    "SELECT group_concat(name) FROM item": "gold is ambiguous: its result depends on the order in which rows are stored",
    "SELECT qty FROM sale WHERE item_id = (SELECT id FROM item ORDER BY kind LIMIT 1)": "gold is ambiguous: LIMIT cuts through ties",
    "SELECT name FROM (SELECT name, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY kind) AS n FROM item) WHERE n = 1": (
        "gold is ambiguous: its result depends on the order in which rows are stored"
    ),
}


@pytest.mark.parametrize("gold", UNFIT)
def test_golds_that_are_unfit_are_the_tasks_fault(verify: Verify, gold: str) -> None:
    for answer in ("SELECT 'anything'", "no query at all", "DROP TABLE item", gold):
        verdict = verify(answer, gold, timeout_s=0.3)
        assert (verdict.status, verdict.score) == ("UNVERIFIABLE", None)
        wanted = UNFIT[gold]
        if "(SELECT id FROM item ORDER BY kind LIMIT 1)" in gold:
            wanted = "gold is ambiguous: its result depends on the order in which rows are stored"
        assert verdict.reason == wanted


def test_ambiguity_on_the_second_instance_alone(verify: Verify) -> None:
    # 3.5 twice in the first instance, 4.5 twice in the second: the cheapest is one in both, the second dearest in the first only.
    verdict = verify("SELECT 1", "SELECT name FROM item ORDER BY price DESC LIMIT 2")
    assert verdict.reason == "gold is ambiguous: LIMIT cuts through ties (data instance 2)"


def test_empty_on_one_instance_alone_is_fit(verify: Verify, shops: tuple[str, str]) -> None:
    gold = "SELECT name FROM item WHERE price > 4"
    assert verify(gold, gold).status == "PASS"
    assert verify("SELECT 'x' WHERE 0", gold).reason == "no rows (data instance 2)"
    assert verify(gold, gold, databases=shops[:1]).reason == "gold is empty on every data instance"


def test_ties_may_be_permuted_and_nothing_else(verify: Verify) -> None:
    gold = "SELECT name FROM item ORDER BY price DESC"
    assert verify("SELECT name FROM item ORDER BY price DESC, name", gold).status == "PASS"
    assert verify("SELECT name FROM item ORDER BY price DESC, name DESC", gold).status == "PASS"
    assert verify("SELECT name FROM item ORDER BY price", gold).reason == "wrong order"
    assert verify("SELECT name FROM item ORDER BY name", gold).reason == "wrong order"
    assert verify("SELECT name FROM item ORDER BY price", "SELECT name FROM item").status == "PASS"


def test_order_by_an_expression_of_an_alias(verify: Verify) -> None:
    gold = "SELECT name, price * 2 AS twice FROM item ORDER BY -twice, name"
    assert verify("SELECT name, price + price FROM item ORDER BY price DESC, name", gold).status == "PASS"
    assert verify("SELECT name, price + price FROM item ORDER BY price DESC, name DESC", gold).reason == "wrong order"


def test_hidden_key_of_a_distinct_gold_is_taken_as_strict(verify: Verify) -> None:
    # Each kind has one row here, so the order of kinds is fixed although the key cannot be fetched.
    gold = "SELECT DISTINCT name FROM item ORDER BY id * 2"
    assert verify("SELECT name FROM item ORDER BY id", gold).status == "PASS"
    assert verify("SELECT name FROM item ORDER BY id DESC", gold).reason == "wrong order"
    assert verify(gold, "SELECT DISTINCT name FROM item ORDER BY price + 0").reason == (
        "gold is ambiguous: its result depends on the order in which rows are stored"
    )


def test_keys_that_differ_in_case_alone_are_ties_under_nocase(verify: Verify, shops: tuple[str, str]) -> None:
    gold = "SELECT note FROM sale WHERE note IS NOT NULL ORDER BY note COLLATE NOCASE"
    assert verify("SELECT note FROM sale WHERE note IS NOT NULL ORDER BY lower(note), note", gold).status == "PASS"


def test_a_database_too_large_to_copy_is_judged_without_the_check(verify: Verify, tmp_path: Path) -> None:
    path = tmp_path / "large.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t(x, body)")
    connection.executemany("INSERT INTO t VALUES (?, zeroblob(60000))", [(i % 2,) for i in range(300)])
    connection.commit()
    connection.close()
    assert path.stat().st_size > 16 << 20
    assert verify("SELECT 0", "SELECT x FROM t LIMIT 1", databases=(str(path),)).status == "PASS"


@pytest.mark.parametrize(
    ("sql", "ordered", "limited", "keys"),
    [
        ("SELECT a FROM t", False, False, ()),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1)", False, False, ()),
        ("SELECT a, row_number() OVER (ORDER BY b) FROM t", False, False, ()),
        ("SELECT 'ORDER BY x' FROM t -- ORDER BY y", False, False, ()),
        ("SELECT a FROM t ORDER BY a, b + 1 DESC, f(c, d) ASC NULLS LAST LIMIT 3 OFFSET 1;", True, True, ("a", "b + 1", "f(c, d)")),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT * FROM x ORDER BY 2", True, False, ("2",)),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY a", True, False, ("a",)),
    ],
)
def test_top_level_order_is_read_from_the_text(sql: str, ordered: bool, limited: bool, keys: tuple[str, ...]) -> None:
    gold = read_gold(sql)
    assert (gold.ordered, gold.limited, gold.keys) == (ordered, limited, keys)


def test_keys_are_found_among_the_columns_or_fetched() -> None:
    gold = read_gold('SELECT a AS x, t.b, COUNT(*) AS "n n" FROM t GROUP BY 1 ORDER BY 2, X, t . B, "n n", c, x + 1')
    places, missing = key_columns(gold, ["x", "b", "n n"])
    assert (places, missing) == ([1, 0, 1, 2, None, None], ["c", "x + 1"])
    assert with_columns(gold, missing) == [
        'SELECT a AS x, t.b, COUNT(*) AS "n n" , (c), (x + 1) FROM t GROUP BY 1 ORDER BY 2, X, t . B, "n n", c, x + 1',
        'SELECT a AS x, t.b, COUNT(*) AS "n n" , (c), ((a) + 1) FROM t GROUP BY 1 ORDER BY 2, X, t . B, "n n", c, x + 1',
    ]
    assert with_columns(read_gold("SELECT DISTINCT a FROM t ORDER BY b"), ["b"]) == []
    assert with_columns(read_gold("SELECT a FROM t UNION SELECT b FROM u ORDER BY c"), ["c"]) == []
