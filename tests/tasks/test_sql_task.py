"""SqlTask over a dataset: databases built once, prompts, corrections, checks, parts."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from prefkit.errors import DataError
from prefkit.tasks.base import Example
from prefkit.tasks.sql import SYSTEM, SqlTask
from prefkit.tasks.sql_databases import built_databases, text_hash
from prefkit.verify.scheduler import Scheduler

SCHEMA = "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL);\n"
TRAIN = """{"id": "a-1", "database": "a", "level": 1, "question": "Names?", "gold": "SELECT name FROM items", "pattern": "a"}
{"id": "b-1", "database": "b", "level": 2, "question": "How many?", "gold": ["SELECT COUNT(*) FROM items", "SELECT 7"], "pattern": "b"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of two databases."""
    folder = tmp_path / "tiny"
    for name in ("a", "b"):
        source = folder / "databases" / name
        source.mkdir(parents=True)
        (source / "schema.sql").write_text(SCHEMA)
        for instance in (1, 2):
            (source / f"rows-{instance}.sql").write_text(f"INSERT INTO items VALUES (1, '{name}{instance}', {instance}.5);\n")
    (folder / "train.jsonl").write_text(TRAIN)
    (folder / "test.jsonl").write_text(TRAIN.splitlines()[0].replace("a-1", "a-2"))
    return folder


def test_prompt_is_the_schema_and_the_question(folder: Path, tmp_path: Path) -> None:
    task = SqlTask.from_dataset(folder, tmp_path / "cache")
    example = task.load("train")[0]
    assert example == Example("a-1", "train", "a", 1, "Names?", "SELECT name FROM items", "a")
    assert task.prompt(example) == [
        {"role": "system", "content": "Answer the question with one SQLite query."},
        {"role": "user", "content": "items: id, name (a1, a2), price\n\nNames?"},
    ]
    plain = SqlTask.from_dataset(folder, tmp_path / "cache", values=False)
    assert plain.prompt(example)[1]["content"] == "items: id, name, price\n\nNames?"
    assert plain.prompt_for("b", "Any?")[0]["content"] == SYSTEM


def test_correction_prompt_goes_on_where_the_wrong_answer_ended(folder: Path, tmp_path: Path) -> None:
    task = SqlTask.from_dataset(folder, tmp_path / "cache")
    example = task.load("train")[0]
    prompt = task.correction_prompt(task.prompt(example), "SELECT nam FROM items", "The query does not run: no such column: nam.")
    assert prompt[:2] == task.prompt(example)
    assert [message["role"] for message in prompt[2:]] == ["assistant", "user"]
    assert prompt[2]["content"] == "SELECT nam FROM items"
    assert prompt[3]["content"].startswith("The query does not run: no such column: nam.\n")
    assert example.golds[0] not in prompt[3]["content"]


def test_check_judges_on_both_instances_and_takes_every_gold(folder: Path, tmp_path: Path) -> None:
    task = SqlTask.from_dataset(folder, tmp_path / "cache", timeout_s=1.5)
    name, count = task.load("train")
    check = task.check(name, "SELECT 'a1'", id="r/1")
    assert (check.id, check.timeout_s, len(check.databases)) == ("r/1", 1.5, 2)
    assert task.check(name, "x").id == "a-1"
    answers = [(name, "SELECT name FROM items"), (name, "SELECT 'a1'"), (count, "SELECT COUNT(id) FROM items"), (count, "SELECT 7")]
    with Scheduler(workers=1) as scheduler:
        verdicts = list(scheduler.verify(task.check(*pair) for pair in answers))
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 1.0, 1.0]
    assert verdicts[1].reason.endswith("(data instance 2)")


def test_splits_and_what_is_not_there(folder: Path, tmp_path: Path) -> None:
    task = SqlTask.from_dataset(folder, tmp_path / "cache")
    assert task.splits == ("train", "test")
    with pytest.raises(DataError, match="tiny has no split unseen; there are: train, test"):
        task.load("unseen")
    assert task.parts(1, references=1, own=1, calibrate=0).counts == {"references": 1, "own": 1, "calibrate": 0, "readiness": 0}
    assert task.subset(task.load("train"), 1, 1) == task.subset(task.load("train"), 1, 1)


def test_databases_are_built_once_and_again_for_other_text(folder: Path, tmp_path: Path) -> None:
    first = built_databases(folder, tmp_path / "cache")
    stamps = {path: path.stat().st_mtime_ns for paths in first.values() for path in paths}
    assert built_databases(folder, tmp_path / "cache") == first
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    before = text_hash(folder)
    (folder / "databases" / "a" / "rows-2.sql").write_text("INSERT INTO items VALUES (1, 'other', 1);")
    assert text_hash(folder) != before
    other = built_databases(folder, tmp_path / "cache")
    assert other["a"][1] != first["a"][1]
    assert sqlite3.connect(other["a"][1]).execute("SELECT name FROM items").fetchall() == [("other",)]
    assert sqlite3.connect(first["a"][1]).execute("SELECT name FROM items").fetchall() == [("a2",)]


def test_the_same_text_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    one, two = (built_databases(folder, tmp_path / cache) for cache in ("one", "two"))
    assert [path.read_bytes() for paths in one.values() for path in paths] == [
        path.read_bytes() for paths in two.values() for path in paths
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("rows-2.sql", "INSERT INTO items VALUES (1, 'x');"),
        ("schema.sql", "CREATE TABLE items (id"),
        ("rows-1.sql", "INSERT INTO nowhere VALUES (1);"),
    ],
)
def test_sql_text_that_fails_is_named_and_leaves_nothing(folder: Path, tmp_path: Path, file: str, text: str) -> None:
    (folder / "databases" / "b" / file).write_text(text)
    with pytest.raises(DataError, match=r"b, data instance \d cannot be built from .*b/rows-\d\.sql"):
        SqlTask.from_dataset(folder, tmp_path / "cache")
    assert list((tmp_path / "cache" / "datasets").iterdir()) == []


def test_broken_foreign_keys_are_refused(folder: Path, tmp_path: Path) -> None:
    source = folder / "databases" / "a"
    (source / "schema.sql").write_text(SCHEMA + "CREATE TABLE sales (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES items(id));")
    (source / "rows-1.sql").write_text("INSERT INTO items VALUES (1, 'x', 1); INSERT INTO sales VALUES (1, 2);")
    with pytest.raises(DataError, match="FOREIGN KEY constraint failed"):
        built_databases(folder, tmp_path / "cache")


def test_a_missing_part_of_a_dataset_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "databases" / "a" / "rows-2.sql").unlink()
    with pytest.raises(DataError, match=r"a/rows-2\.sql is missing"):
        built_databases(folder, tmp_path / "cache")
    with pytest.raises(DataError, match="is no SQL dataset"):
        built_databases(tmp_path, tmp_path / "cache")
    for file in folder.glob("*.jsonl"):
        file.unlink()
    with pytest.raises(DataError, match=r"has no questions: `prefkit datasets build tiny`"):
        SqlTask.from_dataset(folder, tmp_path / "cache")


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "x"}', '{"id": "x", "nothing": 1}'])
def test_a_broken_split_file_is_named_with_its_line(folder: Path, tmp_path: Path, line: str) -> None:
    with (folder / "train.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"train\.jsonl, line 3"):
        SqlTask.from_dataset(folder, tmp_path / "cache")


def test_a_question_of_a_database_that_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "test.jsonl").write_text(TRAIN.splitlines()[0].replace('"database": "a"', '"database": "c"'))
    with pytest.raises(DataError, match="asks of the database c, but there are: a, b"):
        SqlTask.from_dataset(folder, tmp_path / "cache")


def _build(arguments: tuple[Path, Path]) -> dict[str, list[Path]]:
    return built_databases(*arguments)


def test_processes_that_build_at_once_agree_and_leave_one_folder(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.map(_build, [(folder, cache)] * 6, chunksize=1)
    assert all(paths == found[0] for paths in found)
    assert len(list((cache / "datasets").iterdir())) == 1
    assert sqlite3.connect(found[0]["b"][0]).execute("SELECT name FROM items").fetchall() == [("b1",)]
