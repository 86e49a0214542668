"""Mutations: each named change is made, keeps the query's own spelling, and is something that SQLite can be asked."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.data import mutate
from prefkit.data.mutate import mutations
from prefkit.tasks.sql_columns import Columns

SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price REAL);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item(id), "on day" TEXT, paid INTEGER);
INSERT INTO item VALUES (1, 'pear', 'fruit', 2.0), (2, 'fig', 'fruit', 3.5), (3, 'leek', 'green', 1.0), (4, 'o''clock', 'green', NULL);
INSERT INTO sale VALUES (1, 1, '2024-01-05', 1), (2, 1, '2024-02-01', 0), (3, 3, '2024-02-01', 1);
"""


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    path = tmp_path_factory.mktemp("database") / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
    return Columns([path])


@pytest.fixture(scope="module")
def run(columns: Columns) -> Iterator[Callable[[str], list]]:
    connection = sqlite3.connect(columns.databases[0])
    yield lambda sql: connection.execute(sql).fetchall()
    connection.close()


def made(sql: str, columns: Columns, name: str | None = None) -> list[str]:
    return [found.sql for found in mutations(sql, columns, random.Random(0)) if name in (None, found.name)]


CASES = [
    ("wrong_column", "SELECT name FROM item", "SELECT kind FROM item"),
    ("wrong_column", "SELECT paid FROM sale", 'SELECT "on day" FROM sale'),
    (
        "wrong_column",
        "SELECT i.name FROM item i JOIN sale s ON s.item_id = i.id",
        "SELECT i.price FROM item i JOIN sale s ON s.item_id = i.id",
    ),
    ("missing_column", "SELECT name, kind, price FROM item", "SELECT name, kind FROM item"),
    ("swapped_columns", "SELECT name, kind FROM item", "SELECT kind, name FROM item"),
    (
        "missing_join_condition",
        "SELECT 1 FROM item i JOIN sale s ON s.item_id = i.id WHERE paid",
        "SELECT 1 FROM item i CROSS JOIN sale s WHERE paid",
    ),
    (
        "missing_join_condition",
        "SELECT 1 FROM item i JOIN sale s ON s.id = i.id AND paid",
        "SELECT 1 FROM item i JOIN sale s ON s.id = i.id",
    ),
    ("left_for_inner", "SELECT 1 FROM item JOIN sale ON 1 = 1", "SELECT 1 FROM item LEFT JOIN sale ON 1 = 1"),
    ("inner_for_left", "SELECT 1 FROM item LEFT JOIN sale ON 1 = 1", "SELECT 1 FROM item JOIN sale ON 1 = 1"),
    ("inner_for_left", "select 1 from item\nleft outer join sale on 1 = 1", "select 1 from item\njoin sale on 1 = 1"),
    ("dropped_filter", "SELECT name FROM item WHERE price > 2 ORDER BY id", "SELECT name FROM item ORDER BY id"),
    ("dropped_filter", "SELECT name FROM item WHERE price > 2 AND kind = 'fruit'", "SELECT name FROM item WHERE kind = 'fruit'"),
    ("dropped_having", "SELECT kind FROM item GROUP BY kind HAVING COUNT(*) > 2", "SELECT kind FROM item GROUP BY kind"),
    ("changed_comparison", "SELECT name FROM item WHERE price>=2", "SELECT name FROM item WHERE price>2"),
    ("changed_comparison", "SELECT name FROM item WHERE kind = 'fruit'", "SELECT name FROM item WHERE kind <> 'fruit'"),
    ("negated_condition", "SELECT name FROM item WHERE price IS NULL", "SELECT name FROM item WHERE price IS NOT NULL"),
    ("negated_condition", "select name from item where price is not null", "select name from item where price is null"),
    ("negated_condition", "SELECT name FROM item WHERE id  NOT IN (1, 2) LIMIT 3", "SELECT name FROM item WHERE id IN (1, 2) LIMIT 3"),
    ("negated_condition", "SELECT name FROM item WHERE name NOT LIKE 'p%'", "SELECT name FROM item WHERE name LIKE 'p%'"),
    ("swapped_connector", "SELECT 1 FROM item WHERE id = 1 AND price > 2", "SELECT 1 FROM item WHERE id = 1 OR price > 2"),
    ("wrong_literal", "SELECT name FROM item WHERE price > 2", "SELECT name FROM item WHERE price > 3"),
    ("wrong_literal", "SELECT name FROM item WHERE kind = 'fruit'", "SELECT name FROM item WHERE kind = 'green'"),
    ("wrong_literal", "SELECT id FROM item WHERE name = 'fig'", "SELECT id FROM item WHERE name = 'o''clock'"),
    (
        "wrong_literal",
        "SELECT 1 FROM sale WHERE strftime('%m', \"on day\") = '02'",
        "SELECT 1 FROM sale WHERE strftime('%m', \"on day\") = '03'",
    ),
    ("wrong_aggregate", "SELECT AVG(price) FROM item", "SELECT MAX(price) FROM item"),
    ("wrong_operator", "SELECT price * 2 FROM item", "SELECT price / 2 FROM item"),
    ("distinct_dropped", "SELECT DISTINCT kind FROM item", "SELECT kind FROM item"),
    ("distinct_dropped", "SELECT COUNT(DISTINCT kind) FROM item", "SELECT COUNT(kind) FROM item"),
    ("distinct_added", "SELECT kind FROM item", "SELECT DISTINCT kind FROM item"),
    ("distinct_added", "SELECT COUNT(kind) FROM item", "SELECT COUNT(DISTINCT kind) FROM item"),
    ("dropped_grouping", "SELECT kind, COUNT(*) FROM item GROUP BY kind", "SELECT kind, COUNT(*) FROM item"),
    ("reversed_order", "SELECT name FROM item ORDER BY price DESC", "SELECT name FROM item ORDER BY price"),
    ("reversed_order", "select name from item order by price limit 2", "select name from item order by price desc limit 2"),
    ("dropped_order", "SELECT name FROM item ORDER BY price LIMIT 1", "SELECT name FROM item LIMIT 1"),
    ("off_by_one_limit", "SELECT name FROM item ORDER BY price LIMIT 3", "SELECT name FROM item ORDER BY price LIMIT 4"),
    ("off_by_one_limit", "SELECT name FROM item LIMIT 3 OFFSET 1", "SELECT name FROM item LIMIT 3 OFFSET 0"),
    ("wrong_set_operation", "SELECT id FROM item UNION SELECT id FROM sale", "SELECT id FROM item UNION ALL SELECT id FROM sale"),
    ("wrong_set_operation", "SELECT id FROM item EXCEPT SELECT id FROM sale", "SELECT id FROM item INTERSECT SELECT id FROM sale"),
]


@pytest.mark.parametrize(("name", "sql", "wanted"), CASES)
def test_each_change_is_made_and_nothing_else(name: str, sql: str, wanted: str, columns: Columns, run: Callable[[str], list]) -> None:
    found = made(sql, columns, name)
    assert wanted in found
    run(wanted)
    assert sql not in made(sql, columns)


def test_every_name_of_the_table_is_tried_here() -> None:
    names = set(re.findall(r"^\| (\w+) +\|", mutate.__doc__ or "", re.MULTILINE)) - {"name"}
    assert names == {name for name, _, _ in CASES}


def test_the_query_keeps_its_own_spelling(columns: Columns) -> None:
    sql = (
        "select  i.name,\n   count(*) as n -- how many\nfrom item as i\n  join sale on sale.item_id=i.id\nwhere i.kind!='fruit'\ngroup by 1"
    )
    found = made(sql, columns)
    assert len(found) > 15
    for text in found:
        kept = [line for line in sql.splitlines() if line in text.splitlines()]
        assert len(kept) >= 4, text
        assert "SELECT" not in text and " AS " not in text and "<>" not in text.replace("sale.item_id<>i.id", "")
    assert sql.replace("!=", "=") in found and sql.replace("'fruit'", "'green'") in found


def test_the_first_ones_are_of_many_kinds_and_all_differ(columns: Columns) -> None:
    sql = "SELECT name, AVG(price) FROM item WHERE kind = 'fruit' AND price > 1 GROUP BY name ORDER BY price DESC LIMIT 3"
    found = list(mutations(sql, columns, random.Random(1)))
    names = [one.name for one in found]
    kinds = len(set(names))
    assert kinds >= 10
    assert len(set(names[:kinds])) == kinds
    assert len({one.sql for one in found}) == len(found)


def test_the_order_is_the_generators_alone(columns: Columns) -> None:
    sql = "SELECT name FROM item WHERE kind = 'fruit' ORDER BY price LIMIT 3"
    once, again, other = (list(mutations(sql, columns, random.Random(seed))) for seed in (5, 5, 6))
    assert once == again
    assert once != other and sorted(one.sql for one in once) == sorted(one.sql for one in other)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "nothing",
        "SELECT (",
        "DELETE FROM item",
        "SELECT 1",
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT 'a\0b' FROM item" * 2000,
    ],
)
def test_what_cannot_be_changed_gives_nothing_and_no_error(sql: str, columns: Columns) -> None:
    for found in islice(mutations(sql, columns, random.Random(0)), 50):
        assert found.sql != sql


@settings(deadline=None)
@given(sql=st.text("SELECT from'\"`;()*,-/ \n0é%=<>?", max_size=60) | st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
def test_any_text_is_taken_without_an_error(sql: str, columns: Columns) -> None:
    list(islice(mutations(sql, columns, random.Random(0)), 20))


expression = st.recursive(
    st.sampled_from(["id", "price", "name", "kind", "1", "'fruit'", "2.5", "NULL"]),
    lambda part: st.builds("{} {} {}".format, part, st.sampled_from(["+", "=", ">", "<=", "AND", "OR", "LIKE", "IS"]), part)
    | st.builds("({})".format, part) | st.builds("max({})".format, part),
    max_leaves=4,
)  # fmt: skip
queries = st.builds(
    "{select}{space}{one}, {two}{space}FROM item{join}{space}WHERE {where}{space}ORDER BY {three} LIMIT {limit}".format,
    select=st.sampled_from(["SELECT", "select", "SELECT DISTINCT"]), space=st.sampled_from([" ", "\n", "  ", "\n\t"]), one=expression,
    two=st.sampled_from(["id", "name AS n", "price p"]), where=expression, three=st.sampled_from(["1", "id DESC", "price"]),
    join=st.sampled_from(["", ", sale", " NATURAL JOIN sale", " LEFT JOIN sale USING (id)"]), limit=st.integers(0, 9),
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(sql=queries)
def test_a_changed_query_is_another_query_in_the_same_spelling(sql: str, columns: Columns) -> None:
    import sqlglot

    kept = {"\n", "\t"} & set(sql)
    for found in islice(mutations(sql, columns, random.Random(0)), 8):
        assert sqlglot.parse_one(found.sql, read="sqlite") != sqlglot.parse_one(sql, read="sqlite")
        assert found.sql[:6] == sql[:6] and {"\n", "\t"} & set(found.sql) <= kept
