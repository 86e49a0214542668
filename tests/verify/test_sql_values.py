"""Values of DuckDB and PostgreSQL as values that can be compared, and golds in their dialects."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.postgres_text import parse_array, parse_record
from prefkit.sandbox.sql_wire import MAX_DEPTH, TooDeep, encode, size
from prefkit.verify.compare import Expected, difference
from prefkit.verify.gold_text import GoldText
from prefkit.verify.sql_dialects import ORDERS, key_columns, read_gold, reordered, with_columns
from prefkit.verify.sql_engines import ENGINES
from prefkit.verify.sql_jobs import typed_result
from prefkit.verify.sql_values import align, canonical, canonical_rows, show


def through(value: Any) -> Any:
    """A driver's value, encoded, over the pipe, canonical."""
    return canonical(json.loads(json.dumps(encode(value))))


SAME = [
    (3, Decimal("3.00"), 3.0),
    (2.5, Decimal("2.50")),
    (2**70, Decimal(2**70)),
    (0, Decimal("-0.0"), -0.0),
    (math.inf, Decimal("Infinity")),
    (math.nan, Decimal("NaN")),
    (date(2024, 1, 31), datetime(2024, 1, 31), datetime(2024, 1, 31, 2, tzinfo=timezone(timedelta(hours=2)))),
    (datetime(2024, 1, 31, 10), datetime(2024, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))),
    (time(10), time(12, tzinfo=timezone(timedelta(hours=2)))),
    (timedelta(days=30), timedelta(hours=720)),
    ([1, 2.0], (1, Decimal("2"))),
    ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1}),
    (b"\x00", bytearray(b"\x00"), memoryview(b"\x00")),
    (None, None),
]
"""Groups whose members are equal to each other and to no member of another group."""


def test_equal_values_become_one_and_different_ones_do_not() -> None:
    found = [{through(value) for value in group} for group in SAME]
    assert [len(group) for group in found] == [1] * len(SAME), found
    assert len(set.union(*found)) == len(SAME)


DIFFERENT = [
    (True, 1, "true", b"true", "t"),
    ("1", 1, b"1", "1.0"),
    (date(2024, 1, 31), "2024-01-31", "date:2024-01-31", b"date:2024-01-31"),
    (UUID(int=1), UUID(int=2), str(UUID(int=1)), 1),
    ([1], [[1]], 1, "[1]", {"a": 1}, [1, None], ["1"]),
    ({"a": 1}, {"b": 1}, {"a": "1"}, {"a": 1, "b": None}),
    ([b"x"], ["x"], ["blob:x"]),
    (None, "", 0, False, "NULL", [], [None]),
    (datetime(2024, 1, 31, 10), datetime(2024, 1, 31, 10, 0, 0, 1), date(2024, 1, 31), time(10)),
    (math.nan, math.inf, -math.inf, "nan", 0),
    (timedelta(days=1), timedelta(days=1, microseconds=1), 86_400_000_000),
    ([True], [1]),
    ([date(2024, 1, 31)], ["2024-01-31"], ["date:2024-01-31"]),
    ({"bytes": "bool:true"}, [True], True),
]


@pytest.mark.parametrize("values", DIFFERENT, ids=lambda values: repr(values[0]))
def test_values_of_different_kinds_never_meet(values: tuple) -> None:
    rows = [(through(value),) for value in values]
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            assert (difference(Expected(1, *align([row], [other])[:1]), 1, align([row], [other])[1]) is None) == (i == j), (row, other)


@pytest.mark.parametrize(
    ("raw", "value", "shown"),
    [
        ({"number": "170141183460469231731687303715884105728"}, 2**127, str(2**127)),
        ({"number": "1e400"}, b"number:1E+400", "1E+400"),
        ({"number": "-1e400"}, b"number:-1E+400", "-1E+400"),
        ({"number": "1e-400"}, 0.0, "0.0"),
        ({"bool": False}, b"bool:false", "false"),
        ({"bits": "0101"}, b"bits:0101", "0101"),
        ({"uuid": "a0" * 16}, b"uuid:" + b"a0" * 16, "a0" * 16),
        ({"date": "0044-03-15 (BC)"}, b"date:0044-03-15 BC", "0044-03-15 BC"),
        ({"timestamp": "0044-03-15 10:00:00 BC"}, b"timestamp:0044-03-15 BC 10:00:00", "0044-03-15 BC 10:00:00"),
        ({"timestamp": "infinity"}, b"date:infinity", "infinity"),
        ({"timestamptz": "2024-01-31 10:00:00.120+00"}, b"timestamp:2024-01-31 10:00:00.12", "2024-01-31 10:00:00.12"),
        ({"timetz": "01:00:00+02:00"}, b"time:23:00:00", "23:00:00"),
        ({"timetz": "23:30:00-01"}, b"time:00:30:00", "00:30:00"),
        ({"time": "24:00:00"}, b"time:24:00:00", "24:00:00"),
        ({"interval": [1, -2, 10_800_500_000]}, b"interval:2430000500000", "28 days 03:00:00.5"),
        ({"interval": [0, -1, 0]}, b"interval:-86400000000", "-1 day"),
        ({"blob": "00ff"}, b"blob:\x00\xff", "x'00ff'"),
        ({"json": '{"b": 1.0, "a": [1e400]}'}, b'json:{"a":[{"":"number:1E+400"}],"b":1}', '{"a":[{"":"number:1E+400"}],"b":1}'),
        ({"json": "{bad"}, b"other:json:{bad", "{bad"),
        ({"json": "[" * 100_000}, b"other:json:" + b"[" * 100_000, "[" * 100_000),
        ({"other": ["inet", "::1"]}, b"other:inet:::1", "::1"),
        ({"list": [{"list": [1]}, {"date": "2024-01-31"}]}, b'list:[[1],{"bytes":"date:2024-01-31"}]', '[[1],{"bytes":"date:2024-01-31"}]'),
        (None, None, "NULL"),
        ("x", "x", "x"),
        (2.5, 2.5, "2.5"),
    ],
)  # fmt: skip
def test_each_kind_has_its_canonical_value(raw: Any, value: Any, shown: str) -> None:
    assert canonical(raw) == value
    assert type(canonical(raw)) is type(value)
    assert show(value) == shown


@pytest.mark.parametrize("raw", [{"what": 1}, {}, {"bool": True, "number": "1"}, {"number": "x"}, {"blob": "x"}, {"interval": [1]}])
def test_what_is_no_value_is_no_result(raw: dict) -> None:
    result = typed_result({"status": "ok", "columns": ["a"], "rows": [[raw]]})
    assert (result.status, result.rows) == ("infra", [])


def test_deep_values_are_refused_where_they_are_made() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert size(encode(value)) == 8 * (MAX_DEPTH + 1)
    with pytest.raises(TooDeep):
        encode([[value]])


def test_floats_in_lists_have_the_tolerance_of_columns() -> None:
    wanted = canonical_rows([[{"list": [0.1, 1]}], [{"map": [["a", 2.0]]}], [{"json": '{"x": 0.3}'}]])
    near = canonical_rows([[{"list": [0.1 + 1e-9, 1.0]}], [{"map": [["a", 2 + 1e-9]]}], [{"json": '{"x": 0.30000000001}'}]])
    far = canonical_rows([[{"list": [0.1001, 1.0]}], [{"map": [["a", 2]]}], [{"json": '{"x": 0.3}'}]])
    for rows, reason in ((near, None), (near[::-1], None), (far, "wrong rows")):
        expected, had = align(wanted, rows)
        assert difference(Expected(1, expected), 1, had) == reason


def test_a_chain_longer_than_the_tolerance_joins_nothing() -> None:
    chain = [[{"list": [1 + i * 8e-7]}] for i in range(5)]
    rows = canonical_rows(chain)
    assert align(rows, rows) == (rows, rows)
    assert len(set(align(rows, rows)[0])) == 5


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=8), st.decimals(), st.dates(),
    st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.times(), st.timedeltas(), st.uuids(),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_every_value_is_equal_to_itself_in_any_order(rows: list[tuple], random: Any) -> None:
    there = [tuple(through(value) for value in row) for row in rows]
    assert all(type(value) in (type(None), int, float, str, bytes) for row in there for value in row)
    shuffled = random.sample(there, len(there))
    expected, had = align(there, shuffled)
    assert difference(Expected(2, expected), 2, had) is None
    assert all(isinstance(show(value), str) for row in there for value in row)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES)
def test_equality_has_a_reason(a: Any, b: Any) -> None:
    """Equal canonical values come from values that Python, too, takes for equal once their kinds are brought together."""
    if through(a) == through(b):
        assert type(a) is type(b) or {type(a), type(b)} <= {int, float, Decimal} or {type(a), type(b)} <= {date, datetime}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(alphabet='ab{}(),"\\ N', max_size=5)), max_size=4))
def test_arrays_and_rows_of_postgres_are_read_as_they_are_written(items: list[str | None]) -> None:
    def quoted(item: str | None, null: str) -> str:
        return null if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_array("{" + ",".join(quoted(item, "NULL") for item in items) + "}") == items
    if items:
        assert parse_record("(" + ",".join(quoted(item, "") for item in items) + ")") == items


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='ab{}[]=(),"\\ N1', max_size=20))
def test_odd_text_of_arrays_and_rows_never_fails(text: str) -> None:
    assert isinstance(parse_array(text), list)
    assert isinstance(parse_record(text), list)


GOLDS = {
    "SELECT a, b FROM t": (False, False, ()),
    "SELECT a FROM t ORDER BY b DESC NULLS LAST, lower(c);": (True, False, ("b", "LOWER(c)")),
    "SELECT a FROM t LIMIT 3": (False, True, ()),
    "SELECT a FROM t ORDER BY 1 OFFSET 3": (True, True, ("1",)),
    "SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 1) s": (False, False, ()),
    "WITH s AS (SELECT a FROM t ORDER BY b) SELECT a FROM s": (False, False, ()),
    "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1": (True, False, ("1",)),
    "(SELECT a FROM t ORDER BY b)": (True, False, ("b",)),
    "SELECT string_agg(a, ',' ORDER BY a) FROM t": (False, False, ()),
    "SELECT row_number() OVER (ORDER BY a) FROM t": (False, False, ()),
    "-- ORDER BY x\nSELECT ' ORDER BY y ' FROM t": (False, False, ()),
}


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("sql", GOLDS)
def test_a_golds_order_is_read(dialect: str, sql: str) -> None:
    gold = ENGINES[dialect].read_gold(sql)
    assert (gold.ordered, gold.limited, gold.keys) == GOLDS[sql]
    assert gold.sql == sql.rstrip(";")


def test_what_only_one_dialect_has() -> None:
    assert read_gold("SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "postgres").limited
    assert not read_gold("SELECT $x$ ORDER BY a $x$ FROM t", "postgres").ordered
    assert read_gold("SELECT a, b FROM t ORDER BY ALL", "duckdb").keys == ("1", "2")
    assert read_gold("FROM t SELECT a ORDER BY b", "duckdb").insert_at == -1
    assert read_gold("SELECT rowid FROM t", "duckdb").tied_to_storage
    assert read_gold("SELECT ctid FROM t", "postgres").tied_to_storage


@pytest.mark.parametrize(
    ("sql", "columns", "places", "missing"),
    [
        ("SELECT a, b FROM t ORDER BY b, 1", ["a", "b"], [1, 0], []),
        ("SELECT a AS x FROM t ORDER BY X DESC", ["x"], [0], []),
        ("SELECT t.a FROM t ORDER BY t.a", ["a"], [0], []),
        ("SELECT lower(a) FROM t ORDER BY LOWER( a )", ["lower"], [0], []),
        ("SELECT a FROM t ORDER BY b::date, a", ["a"], [None, 0], ["CAST(b AS DATE)"]),
        ("SELECT a, a FROM t ORDER BY a", ["a", "a"], [None], ["a"]),
        ("SELECT * FROM t ORDER BY c", ["a", "c"], [1], []),
        ("SELECT DISTINCT a FROM t ORDER BY t.a", ["a"], [0], []),
        ("SELECT a FROM t ORDER BY 7", ["a"], [None], ["7"]),
    ],
)
def test_sort_keys_are_found_among_the_columns(sql: str, columns: list[str], places: list, missing: list[str]) -> None:
    for dialect in ("duckdb", "postgres"):
        assert key_columns(read_gold(sql, dialect), columns, dialect) == (places, missing)


def test_further_columns_stand_before_the_golds_own_from() -> None:
    gold = read_gold("SELECT extract(year FROM d) AS y FROM t WHERE a IS DISTINCT FROM 1 GROUP BY 1 ORDER BY y * 2", "postgres")
    assert with_columns(gold, ["y * 2"], "postgres") == [
        "SELECT extract(year FROM d) AS y , (y * 2) FROM t WHERE a IS DISTINCT FROM 1 GROUP BY 1 ORDER BY y * 2",
        "SELECT extract(year FROM d) AS y , ((EXTRACT(YEAR FROM d)) * 2) FROM t WHERE a IS DISTINCT FROM 1 GROUP BY 1 ORDER BY y * 2",
    ]
    for sql in ("SELECT DISTINCT a FROM t ORDER BY b", "SELECT a FROM t UNION SELECT b FROM t ORDER BY 1", "VALUES (1)", "SELECT 1"):
        assert with_columns(read_gold(sql, "postgres"), ["b"], "postgres") == []


def test_tables_are_read_in_another_order() -> None:
    sql = 'SELECT * FROM "T" x JOIN s.u ON true, (SELECT * FROM v) w, generate_series(1, 2) g WHERE EXISTS (SELECT 1 FROM e)'
    forward = reordered(sql, "postgres", "forward") or ""
    reverse = reordered(sql, "postgres", "reverse") or ""
    for table, alias in (('"T"', "x"), ("s.u", "u"), ("v", "v"), ("e", "e")):
        assert f"(SELECT * FROM {table}) AS {alias}" in forward
        assert f"(SELECT * FROM {table} AS prefkit_row ORDER BY MD5(CAST(prefkit_row AS TEXT)) DESC NULLS LAST) AS {alias}" in reverse
    assert "GENERATE_SERIES(1, 2) AS g" in forward
    cte = reordered("WITH t AS (SELECT a FROM b) SELECT a FROM t", "postgres", "mixed") or ""
    assert cte.count("prefkit_row ORDER BY") == 1
    assert reordered("nonsense (", "postgres", "mixed") is None


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="SELECT fromORDERBY,()*1'\"$;-\n\x00é\udce9", max_size=40), st.sampled_from(["duckdb", "postgres"]))
def test_odd_text_of_golds_never_fails(text: str, dialect: str) -> None:
    gold = read_gold(text, dialect)
    assert isinstance(gold, GoldText)
    places, missing = key_columns(gold, ["a"], dialect)
    assert len(places) == len(gold.keys)
    assert all(isinstance(query, str) for query in with_columns(gold, missing, dialect))
    assert {type(reordered(text, dialect, order)) for order in ORDERS} <= {str, type(None)}
