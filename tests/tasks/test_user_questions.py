"""A user's own database and questions."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.errors import DatabaseError, DataError
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_text import skeleton
from prefkit.verify.scheduler import Scheduler

Write = Callable[[str, str], Path]


def examples(task: SqlTask) -> dict[str, str]:
    return {example.question: split for split in task.splits for example in task.load(split)}


def test_a_csv_becomes_a_task(databases: list[Path], questions_csv: Path) -> None:
    task = SqlTask.from_user(databases, questions_csv)
    assert task.name == "one"
    assert task.splits == ("train", "validation", "test")
    assert {split: len(task.load(split)) for split in task.splits} == {"train": 6, "validation": 2, "test": 2}
    assert task.notes == ["10 questions, split by hash of their query form, none of which is in two splits: 6 train, 2 validation, 2 test"]
    levels = {example.question: example.level for split in task.splits for example in task.load(split)}
    assert levels["Who lives in Leeds?"] == 1
    assert levels["How many customers are there?"] == 2
    assert levels["The dearest order's id?"] == 3
    assert levels["Amount of each order with the customer's name."] == 4
    assert levels["Orders placed in 2025: ids."] == 5


def test_every_gold_passes_its_own_verifier_and_others_do_not(databases: list[Path], questions_csv: Path) -> None:
    task = SqlTask.from_user(databases, questions_csv)
    every = [example for split in task.splits for example in task.load(split)]
    with Scheduler(workers=1) as scheduler:
        assert [verdict.score for verdict in scheduler.verify(task.check(example, example.golds[0]) for example in every)] == [1.0] * 10
        assert [verdict.score for verdict in scheduler.verify(task.check(example, "SELECT 0") for example in every)] == [0.0] * 10


def test_the_split_does_not_depend_on_the_order_of_the_file(databases: list[Path], questions_csv: Path, written: Write) -> None:
    lines = questions_csv.read_text().splitlines()
    turned = written("turned.csv", "\n".join([lines[0], *reversed(lines[1:])]))
    assert examples(SqlTask.from_user(databases[0], questions_csv)) == examples(SqlTask.from_user(databases[0], turned))


def test_a_large_file_is_split_60_15_25_and_no_query_form_is_in_two(databases: list[Path], written: Write) -> None:
    text = "question,sql\n" + "".join(
        f"what about form {form} number {value} alpha{form}{value} beta{value}?,"
        f"SELECT id + {value} FROM orders WHERE id > {form} {'AND id > 0 ' * form}\n"
        for form in range(60)
        for value in range(form % 5 + 1)
    )
    task = SqlTask.from_user(databases[0], written("q.csv", text))
    counts = Counter(examples(task).values())
    assert counts.total() == 180
    assert {split: round(count / 180, 2) for split, count in counts.items()} == {"train": 0.6, "validation": 0.15, "test": 0.25}
    forms = {split: {skeleton(gold) for example in task.load(split) for gold in example.golds} for split in task.splits}
    assert not forms["train"] & forms["test"] | forms["train"] & forms["validation"] | forms["test"] & forms["validation"]


def test_questions_of_nearly_the_same_words_stay_in_one_split(databases: list[Path], questions_csv: Path) -> None:
    words = "please tell me now how many orders do we have with an amount above"
    near = [f"{words} five,SELECT COUNT(*) FROM orders WHERE amount > 5\n", f"{words} six,SELECT COUNT(id) FROM orders WHERE 6 < amount\n"]
    with questions_csv.open("a") as file:
        file.writelines(near)
    splits = examples(SqlTask.from_user(databases[0], questions_csv))
    assert splits[f"{words} five"] == splits[f"{words} six"]


def test_given_splits_are_kept_and_what_leaks_is_said(databases: list[Path], written: Write) -> None:
    path = written(
        "q.csv",
        "question,sql,split\n"
        "How many orders are there with an amount of more than 5?,SELECT COUNT(*) FROM orders WHERE amount > 5,train\n"
        "How many orders are there with an amount of more than 9?,SELECT COUNT(*) FROM orders WHERE amount > 9,test\n"
        "Cities?,SELECT city FROM customers,val\n",
    )
    task = SqlTask.from_user(databases[0], path)
    assert Counter(examples(task).values()) == {"train": 1, "validation": 1, "test": 1}
    assert task.notes == [
        "3 questions, split as the file says: 1 train, 1 validation, 1 test",
        "1 of 2 held-out questions have a query form that training has too, with other values",
        "1 of 2 held-out questions share at least four fifths of their words with a training question",
    ]


def test_a_repeated_question_is_left_out_and_said(databases: list[Path], questions_csv: Path) -> None:
    with questions_csv.open("a") as file:
        file.write("who lives in LEEDS,SELECT name FROM customers WHERE city = 'Leeds';\n")
    task = SqlTask.from_user(databases[0], questions_csv)
    assert len(examples(task)) == 10
    assert task.notes[0] == "1 repeated question left out: same words and same query as an earlier line"


def test_several_accepted_queries_are_all_accepted(databases: list[Path], questions_csv: Path, written: Write) -> None:
    lines = [
        '{"question": "Ann or Dora, or how many?", "sql": ["SELECT name FROM customers WHERE id = 1", "SELECT COUNT(*) FROM customers"]}'
    ]
    for question, sql in (("a", "id"), ("b", "name"), ("c", "city"), ("d", "id, name")):
        lines.append(f'{{"question": "List {question}", "sql": "SELECT {sql} FROM customers"}}')
    task = SqlTask.from_user(databases, written("q.jsonl", "\n".join(lines)))
    example = next(example for split in task.splits for example in task.load(split) if len(example.golds) == 2)
    answers = ["SELECT name FROM customers WHERE id = 1", "SELECT COUNT(id) FROM customers", "SELECT name FROM customers WHERE id = 2"]
    with Scheduler(workers=1) as scheduler:
        assert [verdict.score for verdict in scheduler.verify(task.check(example, answer) for answer in answers)] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Prices?,SELECT price FROM orders", r"questions\.csv, line 12: the query fails on one\.sqlite \(no such column: price\)"),
        ("Syntax?,SELEC 1", r"questions\.csv, line 12: the query fails on one\.sqlite \(near \"SELEC\": syntax error\)"),
        ("Delete?,DELETE FROM orders", r"questions\.csv, line 12: the query fails on one\.sqlite \(attempt to write a readonly database\)"),
        ("Two?,SELECT 1; SELECT 2", r"questions\.csv, line 12: the query fails on one\.sqlite \(You can only execute one statement"),
        ("Nothing?,-- no query", r"questions\.csv, line 12: the query fails on one\.sqlite \(it returns no rows; give a SELECT\)"),
        ("Who lives in Leeds?,SELECT id FROM customers", r"questions\.csv, line 12: the same question as in line 2, with another query"),
    ],
)
def test_a_query_that_cannot_be_used_is_refused_with_its_line(databases: list[Path], questions_csv: Path, line: str, message: str) -> None:
    with questions_csv.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=message):
        SqlTask.from_user(databases, questions_csv)


def test_a_query_that_runs_too_long_is_refused(databases: list[Path], questions_csv: Path) -> None:
    with questions_csv.open("a") as file:
        file.write('Endless?,"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"\n')
    with pytest.raises(DataError, match=r"line 12: the query fails on one\.sqlite \(longer than 0\.1 s\)"):
        SqlTask.from_user(databases[0], questions_csv, timeout_s=0.1)


def test_a_query_that_fails_on_the_second_instance_only_names_it(databases: list[Path], questions_csv: Path) -> None:
    connection = sqlite3.connect(databases[1])
    connection.execute("UPDATE orders SET placed = '{broken'")
    connection.commit()
    connection.close()
    with questions_csv.open("a") as file:
        file.write("Parsed?,SELECT json(placed) FROM orders WHERE placed LIKE '{%'\n")
    with pytest.raises(DataError, match=r"line 12: the query fails on two\.sqlite \(malformed JSON\)"):
        SqlTask.from_user(databases, questions_csv)


def test_splits_that_are_missing_are_asked_for(databases: list[Path], written: Write) -> None:
    half = written("half.csv", "question,sql,split\nWho?,SELECT 1,train\nWhat?,SELECT 2,\n")
    with pytest.raises(DataError, match=r"half\.csv, line 3: no split, where other lines have one"):
        SqlTask.from_user(databases[0], half)
    partial = written("partial.csv", "question,sql,split\nWho?,SELECT 1,train\nWhat?,SELECT 2,test\n")
    with pytest.raises(DataError, match=r"partial\.csv: no question has the split validation \(1 train, 1 test\)"):
        SqlTask.from_user(databases[0], partial)
    few = written("few.csv", "question,sql\nWho?,SELECT 1\nWhat?,SELECT 2\n")
    with pytest.raises(DataError, match=r"few\.csv: too few different questions to be split \(2 train\)"):
        SqlTask.from_user(databases[0], few)


def test_files_that_are_no_databases_are_refused(databases: list[Path], questions_csv: Path, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"questions\.csv is no SQLite database"):
        SqlTask.from_user(questions_csv, questions_csv)
    with pytest.raises(DatabaseError, match="no database at"):
        SqlTask.from_user(tmp_path / "nothing.sqlite", questions_csv)
    with pytest.raises(DatabaseError, match="no database is named"):
        SqlTask.from_user([], questions_csv)


def test_instances_of_another_schema_are_refused(databases: list[Path], questions_csv: Path) -> None:
    connection = sqlite3.connect(databases[1])
    connection.execute("ALTER TABLE orders ADD COLUMN rebate REAL")
    connection.close()
    with pytest.raises(DatabaseError, match=r"two\.sqlite has another schema than .*one\.sqlite \(orders: .*rebate"):
        SqlTask.from_user(databases, questions_csv)


def test_the_users_files_are_left_as_they_were(databases: list[Path], questions_csv: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    task = SqlTask.from_user(databases, questions_csv)
    task.prompt(task.load("test")[0])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


AUGMENTED = {"source": "augmented", "split": "train", "pattern": "count-where"}


def lines(*rows: dict[str, str]) -> str:
    return "".join(json.dumps(row | {"id": f"augmented-{number}"}) + "\n" for number, row in enumerate(rows, 1))


def test_augmented_questions_only_train(databases: list[Path], questions_csv: Path, written: Write) -> None:
    made = [
        AUGMENTED | {"question": f"How many orders have an amount above {n}?", "sql": f"SELECT COUNT(*) FROM orders WHERE amount > {n}"}
        for n in range(1, 7)
    ]
    path = written("made.jsonl", lines(*made))
    alone, task = SqlTask.from_user(databases, questions_csv), SqlTask.from_user(databases, questions_csv, augmented=path)
    assert {split: len(task.load(split)) for split in task.splits} == {"train": 12, "validation": 2, "test": 2}
    assert all(task.load(split) == alone.load(split) for split in ("validation", "test"))
    assert task.load("train")[:6] == alone.load("train")
    assert {example.pattern for example in task.load("train")} == {None, "count-where"}
    assert "6 augmented questions, made from the schema, which only train" in task.notes
    assert not any("not used" in note for note in task.notes)


def test_augmented_questions_in_the_users_own_file_only_train_where_splits_are_drawn(databases: list[Path], written: Write) -> None:
    own = [{"question": f"List {name}", "sql": f"SELECT {name} FROM customers"} for name in ("id", "name", "city", "id, city")]
    made = [
        AUGMENTED | {"question": f"How many {n}?", "sql": f"SELECT COUNT(*) FROM orders WHERE {'id = 1 AND ' * n} 1"} for n in range(40)
    ]
    for row in made:
        del row["split"]
    task = SqlTask.from_user(databases[0], written("all.jsonl", lines(*own, *made)))
    assert sum(len(task.load(split)) for split in ("validation", "test")) == 2
    assert not any(example.pattern for split in ("validation", "test") for example in task.load(split))
    assert len(task.load("train")) == 42


def test_augmented_questions_near_a_held_out_one_are_left_out_and_said(databases: list[Path], written: Write) -> None:
    own = "question,sql,split\nCities?,SELECT city FROM customers,train\nWho?,SELECT name FROM customers,validation\n"
    own += "How many orders of more than 9 are there?,SELECT COUNT(*) FROM orders AS o WHERE o.amount > 9,test\n"
    made = [
        {"question": "Count the orders above 5.", "sql": "SELECT COUNT(*) FROM orders WHERE amount > 5"},  # the form, without the alias
        {"question": "How many orders of more than 20 are there?", "sql": "SELECT COUNT(id) FROM orders WHERE amount > 20"},  # the words
        {"question": "cities", "sql": "SELECT DISTINCT city FROM customers"},  # asked by the user
        {"question": "What is the average amount?", "sql": "SELECT AVG(amount) FROM orders"},
    ]
    path = written("made.jsonl", lines(*(AUGMENTED | row for row in made)))
    task = SqlTask.from_user(databases, written("q.csv", own), augmented=path)
    assert [example.question for example in task.load("train")] == ["Cities?", "What is the average amount?"]
    said = "1 augmented questions, made from the schema, which only train"
    assert f"{said}; 3 left out, which share their words or their query form with your own" in task.notes


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"split": "test"}, r"line 1: a question made from the schema \(augmented\) can only train, but its split is test"),
        ({"source": "me"}, r"made\.jsonl, line 1: not marked as augmented"),
        ({"sql": "SELECT gone FROM orders"}, r"made\.jsonl, line 1: the query fails on one\.sqlite \(no such column: gone\)"),
    ],
)
def test_an_augmented_question_that_cannot_be_used_is_refused(
    databases: list[Path], questions_csv: Path, written: Write, row: dict[str, str], message: str
) -> None:
    path = written("made.jsonl", lines(AUGMENTED | {"question": "Orders?", "sql": "SELECT COUNT(id) FROM orders"} | row))
    with pytest.raises(DataError, match=message):
        SqlTask.from_user(databases, questions_csv, augmented=path)


def test_a_file_of_augmented_questions_alone_is_no_task(databases: list[Path], written: Write) -> None:
    path = written("made.jsonl", lines(AUGMENTED | {"question": "Orders?", "sql": "SELECT COUNT(*) FROM orders"}))
    with pytest.raises(DataError, match="augmented questions only; give it questions of your own"):
        SqlTask.from_user(databases, path)


CHINOOK = """question,sql
How many tracks are there?,SELECT COUNT(*) FROM Track
Which artists have a name starting with 'Black'?,SELECT Name FROM Artist WHERE Name LIKE 'Black%'
List the customers from Brazil by first and last name.,"SELECT FirstName, LastName FROM Customer WHERE Country = 'Brazil'"
What is the total of all invoices?,SELECT SUM(Total) FROM Invoice
How many customers does each country have?,"SELECT Country, COUNT(*) FROM Customer GROUP BY Country"
Which country has the highest total of invoices?,SELECT BillingCountry FROM Invoice GROUP BY BillingCountry ORDER BY SUM(Total) DESC LIMIT 1
Tracks per genre?,"SELECT Genre.Name, COUNT(*) FROM Track JOIN Genre ON Genre.GenreId = Track.GenreId GROUP BY Genre.Name"
Albums of Iron Maiden.,SELECT Album.Title FROM Album JOIN Artist ON Artist.ArtistId = Album.ArtistId WHERE Artist.Name = 'Iron Maiden'
How many tracks are longer than the average?,SELECT COUNT(*) FROM Track WHERE Milliseconds > (SELECT AVG(Milliseconds) FROM Track)
How many customers have no company?,SELECT COUNT(*) FROM Customer WHERE Company IS NULL
Ids of the invoices of more than 20.,SELECT InvoiceId FROM Invoice WHERE Total > 20
How long is the longest track in milliseconds?,SELECT MAX(Milliseconds) FROM Track
"""


def test_a_real_database_works(written: Write) -> None:
    database = Path(os.environ.get("PREFKIT_SHARED", "nowhere")) / "realdata/chinook/databases/chinook.sqlite"
    if not database.is_file():
        pytest.skip("PREFKIT_SHARED names no folder with real databases")
    task = SqlTask.from_user(database, written("q.csv", CHINOOK))
    every = [example for split in task.splits for example in task.load(split)]
    assert len(every) == 12
    assert {example.level for example in every} == {1, 2, 3, 4, 5}
    assert "Album: AlbumId, Title, ArtistId -> Artist.ArtistId" in task.schema("chinook")
    with Scheduler(workers=1) as scheduler:
        verdicts = list(scheduler.verify(task.check(example, example.golds[0]) for example in every))
    assert [verdict.status for verdict in verdicts] == ["PASS"] * 12
