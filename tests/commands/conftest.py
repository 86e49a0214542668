"""A finished run of one's own data, made by hand, so that the commands that read one need no training."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from prefkit import recipe
from prefkit.evaluate import suites
from prefkit.runfolder import RunFolder

QUESTIONS = [
    ("train", "How many people are there?", "SELECT count(*) FROM people"),
    ("validation", "Who is the oldest?", "SELECT name FROM people ORDER BY age DESC LIMIT 1"),
    ("test", "Who is older than 40?", "SELECT name FROM people WHERE age > 40"),
    ("test", "What is the mean age?", "SELECT avg(age) FROM people"),
]
POLICIES = ("base", "references", "own_pairs", "calibrated")


def own_data(folder: Path) -> list[str]:
    """Write a database and questions; returns the overrides that name them."""
    with sqlite3.connect(folder / "my.sqlite") as connection:
        connection.executescript("CREATE TABLE people (name TEXT, age INTEGER); INSERT INTO people VALUES ('Ann', 31), ('Bob', 52);")
    lines = [json.dumps({"split": split, "question": question, "sql": sql}) for split, question, sql in QUESTIONS]
    (folder / "my.jsonl").write_text("\n".join(lines) + "\n")
    return [f"task.database={folder / 'my.sqlite'}", f"task.questions={folder / 'my.jsonl'}"]


def rows_of_answers() -> list[dict[str, Any]]:
    """Answer rows in which the base model is wrong and every later policy right."""
    shared = {"database": "my", "level": 1, "gold": "g", "completion": "c", "sql": "s", "reason": "same rows", "tokens": 3, "key": ""}
    rows = []
    for policy in POLICIES:
        for number in range(2):
            for kind, count in (("greedy", 1), ("sample", 2)):
                score = float(policy != "base")
                status = "PASS" if score else "WRONG"
                row = {"policy": policy, "split": "test", "example_id": f"q{number}", "question": "?", "kind": kind}
                rows += [{**row, **shared, "k": k, "score": score, "status": status} for k in range(count)]
    return rows


@pytest.fixture
def answers() -> list[dict[str, Any]]:
    """Answer rows of four policies to two questions."""
    return rows_of_answers()


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run folder with all that a finished run leaves; its adapter's weights are bytes that nobody can load."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path / "cache"))
    chosen = recipe.load("sql-gen", profile="smoke", overrides=[*own_data(tmp_path), "limits.test=2"])
    run = RunFolder("run")
    run.write_text("recipe.yaml", chosen.to_yaml())
    run.describe(recipe="sql-gen", profile="smoke")
    for folder in ("adapter", "warm_start/round-0/adapter", "warm_start/round-1/adapter"):
        run.write_json(f"{folder}/adapter_config.json", {"base_model_name_or_path": "/cache/smollm2-135m-instruct-0123", "r": 16})
        run.file(f"{folder}/adapter_model.safetensors").write_bytes(folder.encode())
    run.write_json("select-warm.json", {"adapter": "warm_start/round-1/adapter"})
    run.write_json("select-final.json", {"adapter": "adapter", "kept": "warm_start/round-1/adapter"})
    run.write_rows("evaluation/answers.parquet", rows_of_answers())
    run.write_json("evaluation.json", suites.evaluation(rows_of_answers(), {"test": 2}, 2, 1.0))
    run.write_json("ledger.json", suites.ledger(rows_of_answers(), {}))
    return run
