"""A second data instance: keys intact, values shuffled, the user's file untouched."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.data.instance import Table, derive_instance
from prefkit.errors import DatabaseError
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE, city TEXT, country TEXT);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id), placed TEXT NOT NULL, paid TEXT, amount REAL,
  CHECK (paid IS NULL OR paid >= placed)
);
CREATE TABLE lines (
  order_id INTEGER REFERENCES orders, line INTEGER, quantity INTEGER, price REAL, total REAL GENERATED ALWAYS AS (quantity * price) STORED,
  PRIMARY KEY (order_id, line)
) WITHOUT ROWID;
CREATE TABLE log (text TEXT);
CREATE INDEX by_city ON customers(city);
CREATE VIEW german AS SELECT name FROM customers WHERE country = 'Germany';
CREATE TRIGGER noted AFTER INSERT ON customers BEGIN INSERT INTO log VALUES (new.name); END;
"""


def fill_shop(connection: sqlite3.Connection) -> None:
    for i in range(1, 41):
        city = ("Berlin", "Paris", "Rome", None)[i % 4]
        row = (i, f"Customer {i}", f"c{i}@example.org", city, {"Berlin": "Germany", "Paris": "France", "Rome": "Italy"}.get(city or ""))
        connection.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?)", row)
    for i in range(1, 121):
        paid = None if i % 5 == 0 else f"2024-{i % 9 + 2:02}-01"
        connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", (i, i % 40 + 1, f"2024-{i % 9 + 1:02}-15", paid, 2.5 * i))
    for i in range(1, 121):
        for line in (1, 2):
            connection.execute("INSERT INTO lines (order_id, line, quantity, price) VALUES (?, ?, ?, ?)", (i, line, i % 7 + line, i / 4))


Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Make a database below the test's folder of schema text and a function that fills it."""

    def make(schema: str, fill: Callable[[sqlite3.Connection], None] = lambda connection: None, name: str = "one.sqlite") -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(schema)
            fill(connection)
            connection.commit()
        return path

    return make


def rows(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def checked(path: Path) -> None:
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def by_name(tables: Sequence[Table]) -> dict[str, Table]:
    return {table.name: table for table in tables}


def test_keys_stay_and_values_move(made: Made, tmp_path: Path) -> None:
    source, target = made(SHOP, fill_shop), tmp_path / "two.sqlite"
    before = source.read_bytes()
    tables = by_name(derive_instance(source, target, share=0.7, seed=3))
    checked(target)
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.sqlite", "two.sqlite"]
    for name, table in tables.items():
        assert (table.before, table.after) == (
            rows(source, f"SELECT COUNT(*) FROM {name}")[0][0],
            rows(target, f"SELECT COUNT(*) FROM {name}")[0][0],
        )
        assert table.after >= 0.7 * table.before
    assert tables["orders"].after < 120
    assert tables["customers"].after < 40
    assert tables["customers"].shuffled == (("name",), ("email",), ("city",), ("country",))
    assert tables["orders"].shuffled == (("placed", "paid"), ("amount",))  # one CHECK names both
    assert tables["lines"].shuffled == (("quantity",), ("price",))
    assert tables["lines"].kept == ("order_id", "line")
    # Every key is one of the source; the values of a column are those of the source, but not in the same rows.
    assert set(rows(target, "SELECT id, customer_id FROM orders")) <= set(rows(source, "SELECT id, customer_id FROM orders"))
    assert set(rows(target, "SELECT name FROM customers")) <= set(rows(source, "SELECT name FROM customers"))
    assert not set(rows(target, "SELECT id, amount FROM orders")) <= set(rows(source, "SELECT id, amount FROM orders"))
    assert set(rows(target, "SELECT placed, paid FROM orders")) <= set(rows(source, "SELECT placed, paid FROM orders"))
    assert rows(target, "SELECT COUNT(*) FROM lines WHERE total <> quantity * price") == [(0,)]


def test_places_and_their_countries_are_shuffled_apart(made: Made, tmp_path: Path) -> None:
    source, target = made(SHOP, fill_shop), tmp_path / "two.sqlite"
    derive_instance(source, target)
    assert len(rows(source, "SELECT DISTINCT city, country FROM customers WHERE city IS NOT NULL")) == 3
    assert len(rows(target, "SELECT DISTINCT city, country FROM customers WHERE city IS NOT NULL")) > 3


def test_with_all_rows_each_column_keeps_its_values(made: Made, tmp_path: Path) -> None:
    source, target = made(SHOP, fill_shop), tmp_path / "two.sqlite"
    derive_instance(source, target, share=1)
    for column in ("city", "country", "email"):
        values = [Counter(rows(path, f"SELECT {column} FROM customers")) for path in (source, target)]
        assert values[0] == values[1]


def test_the_share_of_nulls_is_kept_with_some_rows_to_the_row(made: Made, tmp_path: Path) -> None:
    source, target = made(SHOP, fill_shop), tmp_path / "two.sqlite"
    derive_instance(source, target, share=0.8, seed=5)
    for column in ("city", "country"):
        before, after = (rows(path, f"SELECT COUNT(*) - COUNT({column}), COUNT(*) FROM customers")[0] for path in (source, target))
        assert after[0] == round(after[1] * before[0] / before[1])


def test_indexes_views_and_triggers_are_copied_and_no_trigger_fires(made: Made, tmp_path: Path) -> None:
    source, target = made(SHOP, fill_shop), tmp_path / "two.sqlite"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("DELETE FROM log")
        connection.commit()
    derive_instance(source, target)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"
    assert rows(source, schema) == rows(target, schema)
    assert rows(target, "SELECT COUNT(*) FROM log") == [(0,)]
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("INSERT INTO customers (id, name) VALUES (1000, 'New')")
        assert connection.execute("SELECT text FROM log").fetchall() == [("New",)]


def test_the_same_seed_gives_the_same_file_and_another_another(made: Made, tmp_path: Path) -> None:
    source = made(SHOP, fill_shop)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        derive_instance(source, tmp_path / name, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_references_in_circles_and_to_the_own_table_are_closed(made: Made, tmp_path: Path) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO staff VALUES (?, ?, ?)", [(i, i // 2 or None, i % 5 + 1) for i in range(1, 60)])
        connection.executemany("INSERT INTO teams VALUES (?, ?)", [(i, i * 3) for i in range(1, 11)])

    schema = (
        "CREATE TABLE staff (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES staff, team INTEGER REFERENCES teams(id));"
        "CREATE TABLE teams (id INTEGER PRIMARY KEY, head INTEGER REFERENCES staff(id));"
    )
    target = tmp_path / "two.sqlite"
    tables = by_name(derive_instance(made(schema, fill), target, share=0.5))
    checked(target)
    assert tables["staff"].after < 59
    assert rows(target, "SELECT COUNT(*) FROM staff WHERE boss NOT IN (SELECT id FROM staff)") == [(0,)]


def test_rows_that_refer_to_nothing_are_left_out_and_counted(made: Made, tmp_path: Path) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT INTO a VALUES (?, ?)", [(1, "x"), (2, "y")])
        connection.executemany("INSERT INTO b VALUES (?, ?)", [(1, 1), (2, 99), (3, 2)])
        connection.executemany("INSERT INTO c VALUES (?, ?)", [(1, 2), (2, 3)])

    schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT); CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES a);"
    source = made(schema + "CREATE TABLE c (id INTEGER PRIMARY KEY, b REFERENCES b);", fill)
    tables = by_name(derive_instance(source, tmp_path / "two.sqlite", share=1))
    checked(tmp_path / "two.sqlite")
    assert {name: (table.after, table.orphans) for name, table in tables.items()} == {"a": (2, 0), "b": (2, 1), "c": (1, 1)}


def test_unique_columns_stay_unique(made: Made, tmp_path: Path) -> None:
    schema = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT, c TEXT UNIQUE, d TEXT, e INTEGER, UNIQUE (a, b));"
        "CREATE UNIQUE INDEX part ON t(d) WHERE e > 3; CREATE UNIQUE INDEX lowered ON t(lower(c));"
    )
    rows_ = [(i, f"a{i % 5}", f"b{i // 5}", f"c{i}", f"d{i if i % 7 > 3 else 0}", i % 7) for i in range(50)]
    source = made(schema, lambda connection: connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows_) and None)
    (table,) = derive_instance(source, tmp_path / "two.sqlite", share=0.9)
    checked(tmp_path / "two.sqlite")
    assert table.shuffled == (("a", "b"),)
    assert table.kept == ("id", "c", "d", "e")


def test_columns_of_one_check_move_together(made: Made, tmp_path: Path) -> None:
    schema = 'CREATE TABLE t (a INTEGER, b INTEGER, CHECK (CASE WHEN "A" > 5 THEN b > 5 ELSE b <= 5 END));'
    source = made(schema, lambda connection: connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i) for i in range(12)]) and None)
    (table,) = derive_instance(source, tmp_path / "two.sqlite")
    assert table.shuffled == (("a", "b"),)
    assert rows(tmp_path / "two.sqlite", "SELECT COUNT(*) FROM t WHERE a <> b") == [(0,)]


def test_a_constraint_that_is_not_seen_leaves_the_table_unshuffled_and_says_so(made: Made, tmp_path: Path) -> None:
    # The CHECK does not name the key by its own name.
    schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER CHECK (a >= rowid), b TEXT)"
    source = made(
        schema, lambda connection: connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, i, i) for i in range(30)]) and None
    )
    (table,) = derive_instance(source, tmp_path / "two.sqlite")
    checked(tmp_path / "two.sqlite")
    assert table.after == 21
    assert table.shuffled == ()
    assert set(table.kept) == {"id", "a", "b"}
    assert "CHECK constraint failed" in table.problem


def test_types_bytes_and_names_come_through(made: Made, tmp_path: Path) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("""INSERT INTO "odd ""name" VALUES (1, CAST(x'ff41' AS TEXT), x'00ff', 1.0, '7')""")

    source = made('CREATE TABLE "odd ""name" ("group" INTEGER PRIMARY KEY, "a b" TEXT, c BLOB, d, "é" TEXT)', fill)
    derive_instance(source, tmp_path / "two.sqlite")
    listed = 'SELECT hex("a b"), typeof(c), typeof(d), typeof("é") FROM "odd ""name"'
    assert rows(tmp_path / "two.sqlite", listed) == [("FF41", "blob", "real", "text")]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("CREATE TABLE t (a); CREATE VIRTUAL TABLE search USING fts5(text);", "search is a virtual table"),
        ("CREATE TABLE t (a REFERENCES gone(id)); ", "t refers to the table gone, which is not there"),
        ("CREATE TABLE p (a); CREATE TABLE t (a REFERENCES p);", "t refers to p, which has no such key"),
        ("", "has no tables"),
    ],
)
def test_what_cannot_be_copied_is_refused(made: Made, tmp_path: Path, schema: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        derive_instance(made(schema), tmp_path / "two.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["one.sqlite"]


def test_a_broken_file_and_a_target_that_is_there_are_refused(made: Made, tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("no database, only text that is long enough to be looked at" * 10)
    with pytest.raises(DatabaseError, match="is no SQLite database"):
        derive_instance(text, tmp_path / "two.sqlite")
    source = made("CREATE TABLE t (a)")
    with pytest.raises(DatabaseError, match="is there already"):
        derive_instance(source, source)


def test_schema_text_can_neither_load_an_extension_nor_reach_another_file(made: Made, tmp_path: Path) -> None:
    source = made("CREATE TABLE t (a CHECK (length(a) < 9)); INSERT INTO t VALUES ('x');")
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE t (a CHECK (load_extension(''evil'') IS NULL))'")
        connection.commit()
    with pytest.raises(DatabaseError, match="cannot be copied"):
        derive_instance(source, tmp_path / "two.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["one.sqlite"]


COINCIDENCES = [
    # gold, and a query that is right by luck on the first instance
    ("SELECT COUNT(DISTINCT seat) FROM guests WHERE day = 'Monday'", "SELECT COUNT(*) FROM guests WHERE day = 'Monday'"),
    ("SELECT MAX(paid) FROM guests", "SELECT paid FROM guests ORDER BY id DESC LIMIT 1"),
    ("SELECT COUNT(*) FROM guests WHERE city = 'Rome'", "SELECT COUNT(*) FROM guests WHERE country = 'Italy'"),
    ("SELECT name FROM guests ORDER BY paid DESC LIMIT 3", "SELECT name FROM guests ORDER BY id DESC LIMIT 3"),
]


@pytest.fixture
def lucky(made: Made) -> Path:
    """Guests who pay the more the later they come, on Monday each on a seat of their own, and in Italy all in Rome."""

    def fill(connection: sqlite3.Connection) -> None:
        for i in range(1, 61):
            place = ("Rome", "Italy") if i % 3 == 0 else ("Oslo", "Norway")
            guest = (i, f"Guest {i}", "Monday" if i <= 20 else "Tuesday", i % 20, i * 1.5, *place)
            connection.execute("INSERT INTO guests VALUES (?, ?, ?, ?, ?, ?, ?)", guest)

    return made("CREATE TABLE guests (id INTEGER PRIMARY KEY, name TEXT, day TEXT, seat INTEGER, paid REAL, city TEXT, country TEXT)", fill)


@pytest.mark.parametrize(("gold", "query"), COINCIDENCES)
def test_a_query_that_is_right_by_luck_is_told_apart(lucky: Path, tmp_path: Path, gold: str, query: str) -> None:
    two = tmp_path / "two.sqlite"
    derive_instance(lucky, two)
    with Scheduler(workers=1) as scheduler:
        files = [(str(lucky),), (str(lucky), str(two))]
        alone, both, itself = scheduler.verify(
            [SqlCheck("1", query, (gold,), files[0]), SqlCheck("2", query, (gold,), files[1]), SqlCheck("3", gold, (gold,), files[1])]
        )
    assert (alone.score, both.score, itself.score) == (1.0, 0.0, 1.0)
    assert "data instance 2" in both.reason


# Random schemas: a few tables with keys to each other, and columns of every kind.

Schema = list[tuple[bool, list[int], list[str], int]]
"""For each table: WITHOUT ROWID, the tables that it refers to, its columns, and its rows."""
COLUMNS = ["TEXT", "INTEGER", "REAL NOT NULL DEFAULT 0", "TEXT UNIQUE", "BLOB", "INTEGER CHECK ({name} IS NULL OR {name} < 1000)"]
schemas = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(0, 3), max_size=2), st.lists(st.sampled_from(COLUMNS), max_size=4), st.integers(0, 25)),
    min_size=1,
    max_size=4,
)


def build(path: Path, schema: Schema, draw: random.Random) -> None:
    cells: dict[str, Callable[[int], object]] = {
        "TEXT": lambda row: draw.choice([None, "", "a", "é\x00", "1"]),
        "INTEGER": lambda row: draw.choice([None, -1, 0, 7, 2**60]),
        "REAL NOT NULL DEFAULT 0": lambda row: draw.choice([0.0, -1.5, 1e300]),
        "TEXT UNIQUE": lambda row: f"u{row}",
        "BLOB": lambda row: draw.choice([None, b"", b"\xff"]),
        COLUMNS[-1]: lambda row: draw.choice([None, 0, 999]),
    }
    with closing(sqlite3.connect(path)) as connection:
        for number, (without, parents, columns, _) in enumerate(schema):
            lines = ["id INTEGER PRIMARY KEY"]
            lines += [f"r{i} INTEGER REFERENCES t{parent % len(schema)}(id)" for i, parent in enumerate(parents)]
            lines += [f"c{i} {kind.format(name=f'c{i}')}" for i, kind in enumerate(columns)]
            connection.execute(f"CREATE TABLE t{number} ({', '.join(lines)}){' WITHOUT ROWID' if without else ''}")
        for number, (_, parents, columns, size) in enumerate(schema):
            targets = [schema[parent % len(schema)][3] for parent in parents]
            for row in range(size):
                keys = [draw.choice([None, *range(target)]) for target in targets]
                values = [row, *keys, *(cells[kind](row) for kind in columns)]
                connection.execute(f"INSERT INTO t{number} VALUES ({', '.join('?' * len(values))})", values)
        connection.commit()


@settings(max_examples=40, deadline=None)
@given(schema=schemas, values=st.integers(0, 1000), share=st.floats(0.05, 1), seed=st.integers(0, 5))
def test_any_schema_comes_out_whole(tmp_path_factory: pytest.TempPathFactory, schema: Schema, values: int, share: float, seed: int) -> None:
    folder = tmp_path_factory.mktemp("random")
    source, target = folder / "one.sqlite", folder / "two.sqlite"
    build(source, schema, random.Random(values))
    tables = derive_instance(source, target, share, seed)
    checked(target)
    for number, table in enumerate(tables):
        assert not table.problem
        assert share * table.before - 1e-6 <= table.after <= table.before
        assert (table.after > 0) == (table.before > 0)
        kept = ", ".join(table.kept)
        assert set(rows(target, f"SELECT {kept} FROM t{number}")) <= set(rows(source, f"SELECT {kept} FROM t{number}"))
        for (column,) in table.shuffled:
            old, new = (Counter(rows(path, f"SELECT typeof({column}), {column} FROM t{number}")) for path in (source, target))
            assert new <= old


# Real databases

REAL = Path(os.environ.get("PREFKIT_SHARED", "nowhere")) / "realdata"


@pytest.mark.parametrize("name", ["chinook/databases/chinook", "northwind/databases/northwind", "defog/databases/ewallet"])
def test_real_databases_have_a_second_instance(tmp_path: Path, name: str) -> None:
    file = REAL / f"{name}.sqlite"
    if not file.is_file():
        pytest.skip("PREFKIT_SHARED names no folder with real databases")
    tables = derive_instance(file, tmp_path / "two.sqlite")
    checked(tmp_path / "two.sqlite")
    assert all(table.after >= 0.7 * table.before for table in tables)
    assert not any(table.problem for table in tables)


def test_golds_of_a_real_database_pass_on_both_instances(tmp_path: Path) -> None:
    if not (REAL / "chinook").is_dir():
        pytest.skip("PREFKIT_SHARED names no folder with real databases")
    one, two = REAL / "chinook/databases/chinook.sqlite", tmp_path / "two.sqlite"
    derive_instance(one, two)
    golds = [
        "SELECT COUNT(*) FROM Track WHERE Milliseconds > (SELECT AVG(Milliseconds) FROM Track)",
        "SELECT Genre.Name, COUNT(*) FROM Track JOIN Genre ON Genre.GenreId = Track.GenreId GROUP BY Genre.Name",
        "SELECT BillingCountry, SUM(Total) FROM Invoice GROUP BY BillingCountry",
        "SELECT Name FROM Track ORDER BY Milliseconds DESC LIMIT 5",
        "SELECT COUNT(*) FROM Customer WHERE Company IS NULL",
    ]
    with Scheduler(workers=2) as scheduler:
        verdicts = list(scheduler.verify(SqlCheck(gold, gold, (gold,), (str(one), str(two))) for gold in golds))
    assert [verdict.status for verdict in verdicts] == ["PASS"] * len(golds)
    task = SqlTask("chinook", {"chinook": [one, two]}, [])
    assert "Album: AlbumId, Title, ArtistId -> Artist.ArtistId" in task.schema("chinook")
