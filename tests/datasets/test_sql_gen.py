"""The shipped dataset sql-gen: built as committed, right by its own verifier, without leaks, and no trivial answer scores."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefkit.resources import dataset_path
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_dataset import COLUMNS, all_questions, build, read_patterns
from prefkit.tasks.sql_dataset_card import card_tables
from prefkit.tasks.sql_dataset_check import check, leakage, leakage_faults, without_parts
from prefkit.tasks.sql_text import level_of, normalised, skeleton
from prefkit.verify.scheduler import Scheduler

FOLDER = dataset_path("sql-gen")
UNSEEN = {"hotel", "library"}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> SqlTask:
    return SqlTask.from_dataset(FOLDER, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with Scheduler(workers=2) as scheduler:
        yield scheduler


def test_the_committed_splits_are_what_the_sources_build(tmp_path: Path) -> None:
    counts = build(FOLDER, tmp_path)
    assert counts == {"train": 1938, "validation": 120, "test": 200, "unseen": 150}
    for split in counts:
        assert (tmp_path / f"{split}.jsonl").read_bytes() == (FOLDER / f"{split}.jsonl").read_bytes(), split


def test_the_rows_are_what_their_generators_write(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "rows", tmp_path / "rows")
    for source in (FOLDER / "databases").iterdir():
        (tmp_path / "databases" / source.name).mkdir(parents=True)
    subprocess.run([sys.executable, str(tmp_path / "rows" / "make.py")], check=True, capture_output=True, timeout=120)
    written = sorted((tmp_path / "databases").rglob("rows-*.sql"))
    assert len(written) == 20
    for path in written:
        assert path.read_bytes() == (FOLDER / path.relative_to(tmp_path)).read_bytes(), path.parent.name


def test_the_sizes_that_were_promised(task: SqlTask) -> None:
    patterns = [pattern for name in task.databases for pattern in read_patterns(FOLDER, name)]
    assert len(patterns) >= 150
    assert all(len(set(pattern["wordings"])) >= 3 for pattern in patterns)
    assert len(task.databases) >= 8
    for split in task.splits:
        assert {example.level for example in task.load(split)} == {1, 2, 3, 4, 5}
    assert {example.database for example in task.load("unseen")} == UNSEEN
    for split in ("train", "validation", "test"):
        assert {example.database for example in task.load(split)} == set(task.databases) - UNSEEN


def test_every_gold_passes_its_own_verifier_on_both_instances(task: SqlTask, scheduler: Scheduler) -> None:
    examples = [example for split in task.splits for example in task.load(split)]
    assert all(len(paths) == 2 for paths in task.databases.values())
    verdicts = scheduler.verify(task.check(example, example.golds[0]) for example in examples)
    assert [f"{verdict.id}: {verdict.reason}" for verdict in verdicts if verdict.status != "PASS"] == []


@pytest.mark.parametrize("split", ["validation", "test", "unseen"])
def test_answers_that_forget_a_part_fail(task: SqlTask, scheduler: Scheduler, split: str) -> None:
    planted = [(example, what, lesser) for example in task.load(split) for what, lesser in without_parts(example.golds[0])]
    assert len(planted) > len(task.load(split))
    verdicts = scheduler.verify(task.check(example, lesser, f"{example.id} without {what}") for example, what, lesser in planted)
    assert [verdict.id for verdict in verdicts if verdict.score != 0] == []


def test_golds_of_other_questions_fail(task: SqlTask, scheduler: Scheduler) -> None:
    draw = random.Random(1)
    checks = []
    for split in ("test", "unseen"):
        for example in task.load(split):
            others = [other for other in task.load(split) if other.database == example.database and other.id != example.id]
            checks += [task.check(example, other.golds[0], f"{example.id} by {other.id}") for other in draw.sample(others, 4)]
    assert [verdict.id for verdict in scheduler.verify(checks) if verdict.score != 0] == []


def test_the_instances_hold_other_rows_in_one_schema(task: SqlTask) -> None:
    for name, paths in task.databases.items():
        assert paths[0].read_bytes() != paths[1].read_bytes()
        assert "\n" in task.schema(name)


def test_no_query_form_of_training_is_held_out(task: SqlTask) -> None:
    splits = all_questions(FOLDER)
    assert leakage_faults(splits) == []
    train = {skeleton(example.golds[0]) for example in task.load("train")}
    held_out = [skeleton(example.golds[0]) for split in ("validation", "test", "unseen") for example in task.load(split)]
    assert len(held_out) == len(set(held_out)) == 470
    assert not train & set(held_out)
    for split, most in (("validation", 0), ("test", 2), ("unseen", 0)):
        found = leakage(splits, split)
        assert (found.forms, found.questions) == (0, 0)
        assert len(found.near) <= most


def test_a_planted_leak_is_found() -> None:
    splits = all_questions(FOLDER)
    stolen = dict(splits["train"][0], id="stolen")
    planted = {**splits, "test": [*splits["test"], stolen]}
    assert [message.partition(":")[0] for _, message in leakage_faults(planted)] == ["stolen"]
    found = leakage(planted, "test")
    assert (found.forms, found.questions) == (1, 1)


def test_the_level_of_a_held_out_question_follows_from_its_query(task: SqlTask) -> None:
    for split in ("validation", "test", "unseen"):
        assert [example.id for example in task.load(split) if level_of(example.golds[0]) != example.level] == []


def test_the_checker_finds_planted_faults(tmp_path: Path) -> None:
    folder = tmp_path / "sql-gen"
    shutil.copytree(FOLDER, folder)
    path = folder / "questions" / "hotel.yaml"
    text = path.read_text(encoding="utf-8")
    double = "SELECT AVG(nightly_rate) FROM rooms WHERE room_type = 'double'"
    country = "SELECT country FROM guests GROUP BY country ORDER BY COUNT(*) DESC LIMIT 1"
    planted = {
        "WHERE city = 'Vienna'\"": "WHERE city = 'Nowhere'\"",  # empty
        double: "SELECT AVG(nightly_rate) FROM rooms WHERE nightly_rate > 0",  # idle
        country: "SELECT name FROM guests ORDER BY country LIMIT 1",  # ties
        'SELECT COUNT(*) FROM guests"': 'SELECT COUNT(*) AS n FROM guests"',  # style
        "SELECT job, AVG(salary) FROM staff GROUP BY job": "SELECT job, AVG(pay) FROM staff GROUP BY job",  # no such column
        "SELECT COUNT(*) FROM bookings WHERE status = 'cancelled'": "SELECT id FROM bookings WHERE status = 'cancelled'",  # level
    }
    for old, new in planted.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    faults = "\n".join(check(folder, tmp_path / "cache", ["hotel"]))
    expected = [
        "empty on every data instance",
        "WHERE changes nothing",
        "LIMIT cuts through ties",
        "alias",
        "no such column: pay",
        "level 2, but by its parts it is 1",
    ]
    for words in expected:
        assert words in faults, words


def test_the_checker_has_nothing_to_say(tmp_path: Path) -> None:
    assert check(FOLDER, tmp_path) == []


def test_the_tables_of_the_card_are_up_to_date(tmp_path: Path) -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    tables = card_tables(FOLDER, tmp_path)
    assert set(tables) == {"counts", "databases", "sources", "leakage", "baselines"}
    for name, table in tables.items():
        assert f"<!-- {name} -->\n{table}\n<!-- /{name} -->" in card, name
    assert [line for line in tables["baselines"].splitlines()[2:] if not line.endswith("| 0 of 200 | 0 of 150 |")] == []


def test_hugging_face_opens_the_splits(tmp_path: Path) -> None:
    from datasets import load_dataset

    files = {split: str(FOLDER / f"{split}.jsonl") for split in ("train", "validation", "test", "unseen")}
    opened = load_dataset("json", data_files=files, cache_dir=str(tmp_path))
    assert {split: rows.num_rows for split, rows in opened.items()} == {"train": 1938, "validation": 120, "test": 200, "unseen": 150}
    assert opened["test"].column_names == list(COLUMNS)


def test_parts_of_the_default_size_share_no_gold(task: SqlTask) -> None:
    parts = task.parts(17, references=300, own=300, calibrate=200, readiness=40)
    assert parts.counts == {"references": 300, "own": 300, "calibrate": 200, "readiness": 40}
    golds = Counter(
        (example.database, normalised(example.golds[0]))
        for part in (parts.references, parts.own, parts.calibrate, parts.readiness)
        for example in {(example.database, normalised(example.golds[0])): example for example in part}.values()
    )
    assert max(golds.values()) == 1
