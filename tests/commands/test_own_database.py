"""`prefkit datasets instance` and `prefkit augment`, as a user types them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from prefkit.cli import main
from prefkit.context import load_task
from prefkit.recipe import load

SCHEMA = """
CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE players (
  id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams(id), name TEXT, position TEXT, goals INTEGER, joined_on TEXT
);
"""
QUESTIONS = """question,sql,split
How many players are there?,SELECT COUNT(*) FROM players,test
Which teams play in York?,SELECT name FROM teams WHERE city = 'York',validation
Average goals?,SELECT AVG(goals) FROM players,train
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with my.sqlite and my.csv."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(tmp_path / "my.sqlite")) as connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO teams VALUES (?, ?, ?)", [(i, f"Team {i}", ("York", "Leeds", "Hull")[i % 3]) for i in range(1, 13)]
        )
        for i in range(1, 91):
            player = (i, i % 12 + 1, f"Player {i}", ("goal", "defence", "attack")[i % 3], i * i % 31, f"20{20 + i % 5}-0{i % 9 + 1}-11")
            connection.execute("INSERT INTO players VALUES (?, ?, ?, ?, ?, ?)", player)
        connection.commit()
    (tmp_path / "my.csv").write_text(QUESTIONS)
    return tmp_path


def own(*more: str) -> list[str]:
    settings = ["task.database=[my.sqlite, my-2.sqlite]", "task.questions=my.csv", *more]
    return [word for setting in settings for word in ("--set", setting)]


def test_from_a_database_to_a_task_with_an_augmented_training_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "my.sqlite").read_bytes()
    assert main(["datasets", "instance", "my.sqlite", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "teams" in said
    assert "my-2.sqlite: keys and pages checked; my.sqlite is as it was" in said
    assert (folder / "my.sqlite").read_bytes() == before
    assert main(["augment", "sql-gen", *own(), "--count", "40"]) == 0
    said = capsys.readouterr().out
    assert "first rows" in said
    assert "40 questions of 40 queries; they only train" in " ".join(said.split())
    command = said.strip().splitlines()[-1]
    assert command.startswith("prefkit recipe sql-gen --set ")
    assert command.endswith("--set task.augmented=my-augmented.jsonl")
    rows = [json.loads(line) for line in (folder / "my-augmented.jsonl").read_text().splitlines()]
    assert [row["source"] for row in rows] == ["augmented"] * 40
    task = load_task(load("sql-gen", overrides=own("task.augmented=my-augmented.jsonl")[1::2]))
    assert {split: len(task.load(split)) for split in task.splits} == {"train": 41, "validation": 1, "test": 1}
    assert "40 augmented questions, made from the schema, which only train" in task.notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["augment", "sql-gen"], "which has training questions of its own; name your own data"),
        (["augment", "sql-gen", "--set", "task.database=my.sqlite"], "add --set task.questions=FILE"),
        (["augment", "sql-gen", *own(), "--out", "made.csv"], "name a file that ends in .jsonl"),
        (["augment", "sql-gen", *own(), "--out", "there.jsonl"], "there.jsonl is there already"),
        (["augment", "sql-gen", *own(), "--count", "0"], "'0' is no whole number of at least 1"),
        (["recipe", "sql-gen", "--set", "task.augmented=x.jsonl", "--dry-run"], "augmented questions train beside questions of your own"),
        (["datasets", "instance", "my.csv"], "is no SQLite database"),
        (["datasets", "instance", "my.sqlite", "--out", "my-2.sqlite"], "my-2.sqlite is there already"),
        (["datasets", "instance", "my.sqlite", "--share", "1.5"], "'1.5' is no number above 0 and up to 1"),
        (["datasets", "instance", "my.sqlite", "--to", "here"], "--to is no option of datasets instance"),
        (["datasets", "check", "sql-gen", "--seed", "1"], "--seed is no option of datasets check"),
    ],
)
def test_a_mistake_is_a_message(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    (folder / "my-2.sqlite").write_bytes((folder / "my.sqlite").read_bytes())
    (folder / "there.jsonl").touch()
    before = sorted(path.name for path in folder.iterdir())
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before
