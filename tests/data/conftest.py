"""A task of eight questions over two small databases, a scheduler that really executes, and a pool that answers from a list."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
END = 2
SCHEMA = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price REAL);"
ROWS = (
    "INSERT INTO item VALUES (1, 'pear', 'fruit', 2.0), (2, 'fig', 'fruit', 3.5), (3, 'leek', 'green', 1.0), (4, 'kale', 'green', 4.0);",
    "INSERT INTO item VALUES (1, 'plum', 'fruit', 5.0), (2, 'leek', 'green', 1.5), (3, 'chard', 'green', 4.5);",
)
GOLDS = {
    "names": "SELECT name FROM item",
    "count": "SELECT COUNT(*) FROM item",
    "fruit": "SELECT name FROM item WHERE kind = 'fruit'",
    "dearest": "SELECT name FROM item ORDER BY price DESC LIMIT 1",
}


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> SqlTask:
    """Each question of GOLDS over the databases `shop` and `farm`, which have two data instances each: `shop/count`, …"""
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask

    folder = tmp_path_factory.mktemp("databases")
    databases: dict[str, list[Path]] = {"shop": [], "farm": []}
    for name, paths in databases.items():
        for number, rows in enumerate(ROWS):
            paths.append(folder / f"{name}-{number}.sqlite")
            connection = sqlite3.connect(paths[-1])
            connection.executescript(SCHEMA + rows)
            connection.close()
    # Databases alternate, so that a test sees whether order is kept.
    examples = [
        Example(f"{name}/{question}", "train", name, 1, f"{question} of {name}?", gold)
        for question, gold in GOLDS.items()
        for name in databases
    ]
    return SqlTask("test", databases, examples)


@pytest.fixture(scope="session")
def examples(task: SqlTask) -> list[Example]:
    return task.load("train")


@pytest.fixture(scope="session")
def scheduler() -> Iterator[Scheduler]:
    from prefkit.verify.scheduler import Scheduler

    with Scheduler(workers=1) as scheduler:
        yield scheduler


def encode(text: str) -> list[int]:
    """Token ids of a text: one a character, none of them the end token."""
    return [10 + ord(character) for character in text]


class StandIn:
    """Answers prompts as a pool of model processes does. `answers`: name of a request without its stage -> completions; others get
    `SELECT k`. What begins with `…` did not end. A greedy answer is `SELECT 'greedy'`. It stops after `stop` batches as a killed process
    would. `asked`: the names of the prompts it was given, by batch."""

    def __init__(self, answers: dict[str, list[str]] | None = None, stop: int | None = None, processes: int = 1) -> None:
        self.answers, self.stop, self.processes = answers or {}, stop, processes
        self.asked: list[list[str]] = []
        self.arguments: list[Row] = []

    def map(self, job: str, batches: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
        assert job == "answer"
        done = list(enumerate(batches))
        for count, (number, batch) in enumerate(sorted(done, key=lambda pair: pair[0] ^ 1)):  # not in the order they were given
            if count == self.stop:
                raise Killed
            self.asked.append([prompt["name"] for prompt in batch["prompts"]])
            self.arguments.append(batch)
            yield number, [self._answer(prompt, batch["k"], batch["greedy"]) for prompt in batch["prompts"]]

    def _answer(self, prompt: Row, k: int, greedy: bool) -> Row:
        texts = self.answers.get(prompt["name"].split("/", 1)[1]) or [f"SELECT {number}" for number in range(k)]
        answers = []
        for text in ["SELECT 'greedy'"] * greedy + texts[:k]:
            ended, text = not text.startswith("…"), text.removeprefix("…")
            ids = encode(text) + [END] * ended
            answers.append({"completion": text, "ids": ids, "logprobs": [-0.5] * len(ids), "ended": ended})
        return {"name": prompt["name"], "prompt_ids": encode(prompt["messages"][-1]["content"]), "answers": answers}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def pool() -> type[StandIn]:
    return StandIn


@pytest.fixture
def killed() -> type[BaseException]:
    return Killed


@pytest.fixture
def answered(task: SqlTask, examples: list[Example], scheduler: Scheduler) -> Callable[..., tuple[list[Row], list[Row]]]:
    """Rollouts and verdicts as if the model had given these answers: example id -> completions. What begins with `…` did not end."""
    from prefkit.data.rollouts import verdict_row

    def make(answers: dict[str, list[str]], logprobs: dict[str, float] | None = None, **changes: Any) -> tuple[list[Row], list[Row]]:
        rows, checks = [], []
        for example in examples:
            for k, text in enumerate(answers.get(example.id, [])):
                ended, text = not text.startswith("…"), text.removeprefix("…")
                ids = encode(text) + [END] * ended
                total = (logprobs or {}).get(text, -1.0)
                row = {
                    "id": f"rollouts-1/{example.id}/{k}", "example_id": example.id, "database": example.database, "level": example.level,
                    "messages": task.prompt(example), "prompt_ids": encode(example.question), "completion": text, "completion_ids": ids,
                    "logprobs": [total / max(len(ids), 1)] * len(ids), "ended": ended, "k": k, "turn": 0, "parent": None, **changes,
                }  # fmt: skip
                rows.append(row)
                checks.append(task.check(example, text, id=rows[-1]["id"]))
        return rows, [verdict_row(verdict) for verdict in scheduler.verify(checks)]

    return make


@pytest.fixture
def tokenize() -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [
        {"prompt_ids": encode(row["messages"][-1]["content"]), "answer_ids": [[*encode(text), END] for text in row["answers"]]}
        for row in rows
    ]
