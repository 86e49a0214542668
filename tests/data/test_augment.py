"""Training questions for an own schema: executed, unambiguous, in the words of the schema, never near a held-out question."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from prefkit.data.augment import Augmented, augment, examples_to_read
from prefkit.data.augment_bind import Binder, Pattern, read_role_patterns
from prefkit.data.augment_filters import filters
from prefkit.data.augment_profile import Table, read_tables
from prefkit.data.augment_words import day, plural, shared_prefix, singular, with_article, words_of
from prefkit.data.instance import derive_instance
from prefkit.errors import DataError
from prefkit.resources import dataset_path
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_text import query_forms, words
from prefkit.verify.scheduler import Scheduler

PATTERNS = read_role_patterns(dataset_path("sql-gen") / "roles.yaml")
SCHEMA = """
CREATE TABLE Region (RegionId INTEGER PRIMARY KEY, Name TEXT NOT NULL, Zone TEXT NOT NULL);
CREATE TABLE Customer (
  CustomerId INTEGER PRIMARY KEY, FirstName TEXT, LastName TEXT, City TEXT, IsActive INTEGER,
  RegionId INTEGER REFERENCES Region, Company TEXT
);
CREATE TABLE PurchaseOrder (
  OrderId INTEGER PRIMARY KEY, CustomerId INTEGER NOT NULL REFERENCES Customer(CustomerId),
  OrderDate TEXT, created_at TEXT, Status TEXT, Total REAL
);
"""
CITIES, STATES = ("Berlin", "Paris", "Rome", "Oslo", "Den Haag"), ("open", "paid", "returned")
QUESTIONS = """question,sql,split
How many customers are there?,SELECT COUNT(*) FROM Customer,test
Orders by status?,"SELECT Status, COUNT(*) FROM PurchaseOrder GROUP BY Status",validation
What is the total of all paid orders?,SELECT SUM(o.Total) AS s FROM PurchaseOrder o WHERE o.Status = 'paid',test
Names of all regions,SELECT Name FROM Region,train
"""


def build(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO Region VALUES (?, ?, ?)", [(i, f"Region {'ABCDEF'[i]}", ("north", "south")[i % 2]) for i in range(6)]
        )
        for i in range(1, 61):
            customer = (i, f"First{i % 9}", f"Last{i}", CITIES[i % 5], i % 4 > 0, i % 5, None if i % 3 else f"Company {i}")
            connection.execute("INSERT INTO Customer VALUES (?, ?, ?, ?, ?, ?, ?)", customer)
        for i in range(1, 201):
            date = f"202{i % 4}-{i % 12 + 1:02}-{i % 28 + 1:02}"
            order = (i, i * 7 % 50 + 1, date, f"{date} 0{i % 9}:30:00", STATES[i * i % 3], round(3.7 * (i * 37 % 211), 2))
            connection.execute("INSERT INTO PurchaseOrder VALUES (?, ?, ?, ?, ?, ?)", order)
        connection.commit()
    return path


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> SqlTask:
    folder = tmp_path_factory.mktemp("own")
    one, two = build(folder / "shop.sqlite"), folder / "shop-2.sqlite"
    derive_instance(one, two)
    (folder / "q.csv").write_text(QUESTIONS)
    return SqlTask.from_user([one, two], folder / "q.csv")


@pytest.fixture(scope="module")
def made(task: SqlTask) -> Augmented:
    with Scheduler(workers=2) as scheduler:
        return augment(task, PATTERNS, scheduler, count=80, seed=4)


def test_every_question_is_right_on_both_instances_and_needs_all_of_its_query(task: SqlTask, made: Augmented) -> None:
    assert len(made.rows) == 80
    files = task.databases["shop"]
    for row in made.rows:
        for file in files:
            with closing(sqlite3.connect(file)) as connection:
                found = connection.execute(row["sql"]).fetchall()
            assert 0 < len(found) <= 60, row
            assert found != [(0,)], row
            assert any(value is not None for value in found[0]), row


def test_rows_are_marked_and_their_own_verifier_passes_them(task: SqlTask, made: Augmented) -> None:
    assert {(row["source"], row["split"]) for row in made.rows} == {("augmented", "train")}
    assert {row["pattern"] for row in made.rows} <= {pattern.id for pattern in PATTERNS}
    assert len({row["id"] for row in made.rows}) == len({tuple(words(row["question"])) for row in made.rows}) == 80
    from prefkit.verify.sql import SqlCheck

    files = tuple(map(str, task.databases["shop"]))
    with Scheduler(workers=2) as scheduler:
        verdicts = list(scheduler.verify(SqlCheck(row["id"], row["sql"], (row["sql"],), files) for row in made.rows))
    assert Counter(verdict.status for verdict in verdicts) == {"PASS": 80}


def test_they_are_balanced_over_levels_patterns_and_tables(made: Augmented) -> None:
    levels = Counter(row["level"] for row in made.rows)
    assert set(levels) == {1, 2, 3, 4, 5}
    assert max(levels.values()) - min(levels.values()) <= 6
    assert max(Counter(row["pattern"] for row in made.rows).values()) <= 8
    assert min(made.tables[name] for name in ("Region", "Customer", "PurchaseOrder")) >= 8


def test_nothing_is_shared_with_held_out_questions(task: SqlTask, made: Augmented) -> None:
    held_out = [example for split in ("validation", "test") for example in task.load(split)]
    forms = {form for example in held_out for gold in example.golds for form in query_forms(gold)}
    assert not [row for row in made.rows if query_forms(row["sql"]) & forms]
    assert not [row for row in made.rows if row["sql"].startswith("SELECT SUM(Total) FROM PurchaseOrder WHERE Status = ")]
    assert made.dropped["the query form of a held-out question"] >= 1
    assert any("LIMIT cuts through ties" in reason for reason in made.dropped)
    assert any("changes nothing" in reason for reason in made.dropped)


def test_the_same_seed_gives_the_same_questions_and_another_others(task: SqlTask) -> None:
    with Scheduler(workers=1) as scheduler:
        first, again, other = (augment(task, PATTERNS[:9], scheduler, count=20, seed=seed).rows for seed in (1, 1, 2))
    assert first == again
    assert {row["sql"] for row in first} != {row["sql"] for row in other}


def test_ten_are_shown_from_every_level_with_their_rows(made: Augmented) -> None:
    shown = examples_to_read(made)
    assert Counter(row["level"] for row, _, _ in shown) == dict.fromkeys((1, 2, 3, 4, 5), 2)
    assert len({row["pattern"] for row, _, _ in shown}) >= 9
    assert all(first for _, _, first in shown)


def test_a_schema_without_anything_to_ask_about_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "bare.sqlite")) as connection:
        connection.executescript("CREATE TABLE t (a BLOB); INSERT INTO t VALUES (x'00'), (x'01');")
    task = SqlTask("bare", {"bare": [tmp_path / "bare.sqlite"]}, [])
    with Scheduler(workers=1) as scheduler, pytest.raises(DataError, match="no question could be made"):
        augment(task, PATTERNS, scheduler, count=5)


# Tables and columns


def tables_of(*paths: Path) -> dict[str, Table]:
    return {table.name: table for table in read_tables(paths)}


def test_roles_are_read_from_schema_and_rows(task: SqlTask) -> None:
    found = tables_of(*task.databases["shop"])
    customer, order = found["Customer"], found["PurchaseOrder"]
    assert (customer.one, customer.many, order.many) == ("customer", "customers", "purchase orders")
    assert [column.name for column in customer.label] == ["FirstName", "LastName"]
    assert [column.name for column in order.label] == ["OrderId"]
    assert [(link.said, link.parent) for link in customer.links + order.links] == [("region", "Region"), ("customer", "Customer")]
    assert [column.name for column in customer.columns if column.category] == ["FirstName", "City"]
    assert [column.name for column in order.columns if column.number] == ["Total"]
    assert [(column.name, column.kind) for column in order.columns if column.date] == [("OrderDate", "date"), ("created_at", "datetime")]


def test_foreign_keys_are_guessed_where_the_schema_declares_none(tmp_path: Path) -> None:
    path = tmp_path / "plain.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE authors (id INTEGER, name TEXT);"
            "CREATE TABLE books (id INTEGER, title TEXT, author_id INTEGER, shelf_id INTEGER);"
            "CREATE TABLE shelves (id INTEGER, room TEXT);"
            "INSERT INTO authors VALUES (1, 'A'), (2, 'B'); INSERT INTO shelves VALUES (1, 'x'), (2, 'y');"
            "INSERT INTO books VALUES (1, 'T', 1, 1), (2, 'U', 2, 9), (3, 'V', 1, 2);"
        )
    books = tables_of(path)["books"]
    assert [(link.column.name, link.parent) for link in books.links] == [("author_id", "authors")]  # shelf 9 is not there


def test_filters_say_and_do_the_same(task: SqlTask) -> None:
    import random

    table = tables_of(*task.databases["shop"])["PurchaseOrder"]
    columns = {column.name: column for column in table.columns}
    said = {one.piece.sql: one.piece.said for name in columns for one in filters(columns[name], columns[name].sql, random.Random(0))}
    assert said["Status = 'paid'"]["with"] == "with the status paid"
    assert said["Status <> 'paid'"]["have"] == "have any status other than paid"
    assert said["strftime('%Y', OrderDate) = '2021'"]["with"] == "with an order date in 2021"
    assert said["strftime('%Y', created_at) = '2021'"]["have"] == "were created in 2021"
    assert any(sql.startswith("Total >= ") and text["with"].startswith("with a total of at least ") for sql, text in said.items())
    # A date with a time is never compared by "after", where the day itself would count as after.
    assert not any(sql.startswith("created_at > ") for sql in said)
    with closing(sqlite3.connect(task.databases["shop"][0])) as connection:
        for sql in said:
            rows = connection.execute(f"SELECT COUNT(*) FROM PurchaseOrder WHERE {sql}").fetchone()[0]
            assert rows > 0, sql


def test_a_pattern_names_only_roles_and_phrases_that_there_are(task: SqlTask) -> None:
    binder = Binder(read_tables(task.databases["shop"]), seed=0)
    bound = {pattern.id: binder.candidates(pattern, 60) for pattern in PATTERNS}
    empty = {id for id, found in bound.items() if not found}
    assert empty <= {"bridge-list", "bridge-group"}  # no table joins two others here
    for found in bound.values():
        for candidate in found:
            assert all("{" not in question and "  " not in question for question in candidate.questions)
    with pytest.raises(DataError, match="there is no role 'sort of t'"):
        binder.candidates(Pattern("odd", "SELECT 1", ("?",), {"t": "table", "x": "sort of t"}), 1)


def test_every_pattern_has_three_wordings_and_a_name_of_its_own() -> None:
    assert len({pattern.id for pattern in PATTERNS}) == len(PATTERNS) >= 60
    assert all(len(set(pattern.wordings)) >= 3 for pattern in PATTERNS)


# Words


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("invoice line", "invoice lines"), ("category", "categories"), ("address", "addresses"), ("status", "statuses"), ("day", "days"),
        ("person", "people"), ("box", "boxes"), ("match", "matches"), ("movie", "movies"), ("course", "courses"), ("price", "prices"),
        ("media", "media"), ("bus", "buses"), ("house", "houses"), ("child", "children"), ("bonus", "bonuses"), ("sale", "sales"),
    ],
)  # fmt: skip
def test_singular_and_plural(one: str, many: str) -> None:
    assert (plural(one), singular(many)) == (many, one)
    assert (plural(many), singular(one)) == (many, one)


def test_names_become_words() -> None:
    assert words_of("sbCustAddress1") == ["sb", "cust", "address", "1"]
    assert words_of("HTTPStatus_code") == ["http", "status", "code"]
    assert words_of("größe") == ["größe"]
    assert words_of("_") == ["_"]
    assert shared_prefix([["sb", "tx", "id"], ["sb", "tx", "price"], ["sb", "tx", "tax"]]) == 2
    assert shared_prefix([["id"], ["id", "x"], ["id", "y"]]) == 0
    assert [with_article(text) for text in ("order", "user", "hour", "unit price")] == ["an order", "a user", "an hour", "a unit price"]
    assert day("2024-02-09 00:00:00") == "9 February 2024"


def test_a_real_database_has_enough_for_forty_questions(tmp_path: Path) -> None:
    one = Path(os.environ.get("PREFKIT_SHARED", "nowhere")) / "realdata/chinook/databases/chinook.sqlite"
    if not one.is_file():
        pytest.skip("PREFKIT_SHARED names no folder with real databases")
    derive_instance(one, tmp_path / "two.sqlite")
    task = SqlTask("chinook", {"chinook": [one, tmp_path / "two.sqlite"]}, [])
    binder = Binder(read_tables(task.databases["chinook"]), 0)
    candidates = [candidate for pattern in PATTERNS for candidate in binder.candidates(pattern, 60)]
    assert len({candidate.sql for candidate in candidates}) > 1000
    with Scheduler(workers=2) as scheduler:
        made = augment(task, PATTERNS, scheduler, count=30)
    assert len(made.rows) == 30
    assert len({row["sql"] for row in made.rows}) == 30
