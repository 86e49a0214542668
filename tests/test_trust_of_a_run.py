"""A run whose verdicts are partly a model's opinion: it stops where the two would be mixed, or goes on and says so."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from prefkit import recipe, stages
from prefkit.context import Context, load_task
from prefkit.errors import DataError
from prefkit.progress import quiet
from prefkit.runfolder import RunFolder
from prefkit.verify.scheduler import Scheduler

END = 2
Row = dict[str, Any]


class Tokenizer:
    """Stands in for the processes that hold a model: one token a letter."""

    processes = 1

    def map(self, job: str, batches: list[Row]) -> list[tuple[int, list[Row]]]:
        return [(0, [self._row(row) for row in batch["rows"]]) for batch in batches]

    @staticmethod
    def _row(row: Row) -> Row:
        return {"prompt_ids": [5], "answer_ids": [[*map(ord, text), END] for text in row["answers"]]}


def context(folder: Path, *overrides: str) -> Context:
    """The context of a run on one's own twelve questions."""
    with sqlite3.connect(folder / "my.sqlite") as connection:
        connection.executescript("CREATE TABLE IF NOT EXISTS people (name TEXT); INSERT INTO people VALUES ('Ann');")
    splits = ["train"] * 12 + ["validation", "test"]
    questions = [{"split": split, "question": f"Question {n}?", "sql": f"SELECT name, {n} FROM people"} for n, split in enumerate(splits)]
    (folder / "my.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    data = [f"task.database={folder / 'my.sqlite'}", f"task.questions={folder / 'my.jsonl'}"]
    small = ["limits.readiness=1", "limits.references=4", "limits.own=4", "limits.calibrate=2", "corrections.train=false"]
    chosen = recipe.load("sql-gen", profile="smoke", overrides=[*data, *small, *overrides])
    return Context(chosen, RunFolder(folder / "run"), load_task(chosen), Tokenizer(), Scheduler(workers=1), quiet(), "pairs-1")  # type: ignore[arg-type]


def keep(context: Context, right: str, wrong: str) -> None:
    """A right and a wrong answer to each question of round 1, whose verdicts have these trusts."""
    rows, verdicts = [], []
    for example in context.round_examples(1):
        for k, (text, score, trust) in enumerate([("SELECT 1", 1.0, right), ("SELECT 2", 0.0, wrong)]):
            name = f"rollouts-1/{example.id}/{k}"
            ids = [*map(ord, text), END]
            rows.append(
                {"id": name, "example_id": example.id, "messages": context.task.prompt(example), "completion": text,
                 "prompt_ids": [*map(ord, example.id)],
                 "completion_ids": ids, "logprobs": [-1.0] * len(ids), "ended": True, "k": k, "turn": 0, "parent": None}
            )  # fmt: skip
            status = "PASS" if score else "WRONG"
            verdicts.append({"id": name, "status": status, "score": score, "reason": "", "feedback": None, "trust": trust, "key": name})
    context.keep("rollouts-1", rows, verdicts)


def test_pairs_of_executed_verdicts_and_opinions_are_refused(tmp_path: Path) -> None:
    run = context(tmp_path)
    keep(run, "executed", "model")
    with pytest.raises(DataError, match=r"the pairs of round 1: executed verdicts and a model's opinions .*judge\.mix: true"):
        stages.make_pairs(run, 1)
    assert not run.run.file("pairs/round-1.parquet").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "overrides", "trust"),
    [
        ("executed", "model", ["judge.mix=true"], "mixed"),
        ("model", "model", [], "model"),
        ("executed", "executed", [], "executed"),
        ("executed", "in_process", [], "in_process"),
    ],
)
def test_every_pair_says_what_it_rests_on(tmp_path: Path, right: str, wrong: str, overrides: list[str], trust: str) -> None:
    run = context(tmp_path, *overrides)
    keep(run, right, wrong)
    assert stages.make_pairs(run, 1)["rows"] == 4
    assert {row["trust"] for row in run.run.read_rows("pairs/round-1.parquet")} == {trust}


def answers(trusts: list[str]) -> list[Row]:
    shared = {
        "policy": "base",
        "split": "test",
        "database": "my",
        "level": 1,
        "kind": "greedy",
        "k": 0,
        "tokens": 1,
        "reason": "",
        "key": "",
    }
    return [{**shared, "example_id": f"q{number}", "status": "PASS", "score": 1.0, "trust": trust} for number, trust in enumerate(trusts)]


def test_an_evaluation_counts_what_it_rests_on_and_is_refused_where_it_mixes(tmp_path: Path) -> None:
    mixed = answers(["executed", "model", "executed"])
    run = context(tmp_path)
    with pytest.raises(DataError, match=r"the evaluation: .*judge\.mix"):
        stages.write_evaluation(run, mixed, {"test": 3}, {})
    assert not run.run.file("evaluation/answers.parquet").exists()
    stages.write_evaluation(context(tmp_path, "judge.mix=true"), mixed, {"test": 3}, {})
    assert run.run.read_json("evaluation.json")["trust"] == {"executed": 2, "model": 1}
    assert [row["trust"] for row in run.run.read_rows("evaluation/answers.parquet")] == ["executed", "model", "executed"]


def test_the_choice_makes_another_run(tmp_path: Path) -> None:
    assert context(tmp_path).recipe.run_name != context(tmp_path, "judge.mix=true").recipe.run_name
