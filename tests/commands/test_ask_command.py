"""`prefkit ask`: which database, how answers are shown, and what hostile ones cannot do."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from prefkit import cli
from prefkit.commands import ask
from prefkit.commands.ask import Reply
from prefkit.errors import DataError
from prefkit.runfolder import RunFolder
from prefkit.tasks.sql import SqlTask
from prefkit.verify.query import QueryResult
from prefkit.verify.verdict import Status

SCHEMAS = {
    "shop": "CREATE TABLE customers (name TEXT, city TEXT); CREATE TABLE order_lines (customer TEXT, price REAL);",
    "clinic": "CREATE TABLE patients (name TEXT, city TEXT); CREATE TABLE visits (patient TEXT, status TEXT);"
    "INSERT INTO visits VALUES ('Ann', 'how-to'), ('Bob', 'cancelled');",
}


@pytest.fixture
def task(tmp_path: Path) -> SqlTask:
    databases = {}
    for name, schema in SCHEMAS.items():
        with sqlite3.connect(tmp_path / f"{name}.sqlite") as connection:
            connection.executescript(schema)
        databases[name] = [tmp_path / f"{name}.sqlite"]
    return SqlTask("two", databases, [])


@pytest.mark.parametrize(
    ("question", "database", "words"),
    [
        ("How many order lines cost more than 10?", "shop", "lines, order"),
        ("Which visits were cancelled?", "clinic", "cancelled, visits"),
        ("How many PATIENTS live in each city?", "clinic", "city, patients"),
        ("What does each customer pay?", "shop", "customer"),
    ],
)
def test_the_database_whose_schema_has_the_questions_words_is_asked(task: SqlTask, question: str, database: str, words: str) -> None:
    found, why = ask.choose_database(task, question, None)
    assert found == database
    assert f"its schema has: {words};" in why and "--database" in why


@pytest.mark.parametrize("question", ["How many names and cities are there?", "What is it?", "¿?"])
def test_a_question_that_fits_all_lists_them(task: SqlTask, question: str) -> None:
    with pytest.raises(DataError, match="name one with --database: shop, clinic"):
        ask.choose_database(task, question, None)


def test_a_database_that_is_named_is_taken_or_refused(task: SqlTask) -> None:
    assert ask.choose_database(task, "Which visits?", "shop") == ("shop", "")
    with pytest.raises(DataError, match='no database "clinik"; did you mean clinic'):
        ask.choose_database(task, "Which visits?", "clinik")


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eSELECT\r\x9b31m"


def _replies() -> dict[str, Reply]:
    wide = QueryResult(["a" * 50, HOSTILE], [(f"value {number} " + "x" * 90, HOSTILE) for number in range(12)], Status.PASS, "", True)
    return {"base": Reply(HOSTILE, None, None), "trained": Reply("SELECT 1", f"SELECT '{HOSTILE}'\nFROM t", wide)}


def test_hostile_text_is_shown_and_never_obeyed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ask.show(HOSTILE, "shop", "", Path("shop.sqlite"), _replies())
    shown = capsys.readouterr().out
    assert not set("\x1b\x07\r\x9b\u202e") & set(shown)
    assert "⟨U+001B⟩" in shown and "⟨U+202E⟩" in shown.replace("\n", "")
    assert max(map(len, shown.splitlines())) <= 80
    assert "no query in the answer:" in shown and "more than 2 more rows" in shown


def test_both_sides_stand_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    failed = QueryResult([], [], Status.CRASH, "no such column: nam")
    right = QueryResult(["name", "age"], [("Ann", 31), (None, 52.5), (b"\x00\xff", 0)], Status.PASS, "")
    replies = {"base": Reply("x", "SELECT nam FROM people", failed), "trained": Reply("y", "SELECT name, age FROM people", right)}
    ask.show("Who?", "my", "", Path("my.sqlite"), replies)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Who?", "database my, executed on my.sqlite"]
    heads = next(line for line in lines if "Base model" in line)
    assert heads.index("Trained model") > 24
    assert any("SELECT nam FROM people" in line and "SELECT name, age FROM people" in line for line in lines)
    assert any("CRASH: no such column: nam" in line for line in lines)
    assert any("NULL" in line for line in lines) and any("x'00ff'" in line for line in lines)


@pytest.mark.parametrize(
    ("base", "trained", "said"),
    [
        (([("x",)], ["a"]), ([("x",)], ["b"]), "Both return the same rows."),
        (([(1.0,), (2,)], ["a"]), ([(2.0,), (1.0000000001,)], ["a"]), "Both return the same rows."),
        (([(1,)], ["a"]), ([(2,)], ["a"]), "They return different rows."),
        (([(1,)], ["a"]), ([(1, 1)], ["a", "b"]), "They return different rows."),
        (([], ["a"]), ([], ["a", "b"]), "They return different rows."),
    ],
)
def test_results_are_compared_as_the_verifier_does(base: tuple, trained: tuple, said: str) -> None:
    results = [QueryResult(columns, rows, Status.PASS, "") for rows, columns in (base, trained)]
    assert ask._comparison(*results).startswith(said)
    assert ask._comparison(results[0], None) == ""
    assert ask._comparison(results[0], QueryResult([], [], Status.CRASH, "no such table: x")) == ""


def test_json_holds_values_that_json_does_not_know() -> None:
    rows = [(b"\x00", float("inf"), float("nan"), None, HOSTILE)]
    replies = {"base": Reply("", None, None), "trained": Reply("x", "SELECT 1", QueryResult(list("abcde"), rows, Status.PASS, ""))}
    text = json.dumps(ask.as_json("Who?", "my", Path("my.sqlite"), replies), allow_nan=False)
    read = json.loads(text)
    assert read["trained"]["rows"] == [[{"blob": "00"}, "inf", "nan", None, HOSTILE]]
    assert read["base"]["status"] is None and read["base"]["reason"] == "no query in the answer"
    assert "\x1b" not in text


def test_a_run_that_has_not_ended_says_how_to_go_on(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    finished.file("adapter/adapter_model.safetensors").unlink()
    assert cli.main(["ask", "run", "Who is old?"]) == 2
    assert "no trained adapter yet" in (said := capsys.readouterr().err) and "prefkit recipe run --resume" in said


def test_an_empty_question_is_a_message(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", "run", "  "]) == 2
    assert "the question is empty" in capsys.readouterr().err
