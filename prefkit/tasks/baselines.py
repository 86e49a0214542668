"""Answers that need no understanding: what they get right, any model gets for nothing.

A task on which one of them scores measures something else than the model's skill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prefkit.tasks.base import Example
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler

BASELINES = ("an empty answer", "`SELECT 0`", "the schema, copied from the prompt", "the commonest training query of the database")


def baseline_answers(task: SqlTask, examples: Sequence[Example]) -> dict[str, list[str]]:
    """The answers that need no understanding, for each example: name (BASELINES) -> answers.

    The commonest query is that gold which stands most often among the training questions of the database, the first of equals; for a
    database without training questions, among those of all databases.
    """
    by_database: dict[str, Counter[str]] = {name: Counter() for name in task.databases}
    for example in task.load("train"):
        by_database[example.database].update(example.golds)
    overall = sum(by_database.values(), Counter[str]())
    common = {name: (counts or overall).most_common(1)[0][0] for name, counts in by_database.items()}
    answers = (
        ["" for _ in examples],
        ["SELECT 0" for _ in examples],
        [task.schema(example.database) for example in examples],
        [common[example.database] for example in examples],
    )
    return dict(zip(BASELINES, answers, strict=True))


def right_of_baselines(task: SqlTask, examples: Sequence[Example], scheduler: Scheduler) -> dict[str, int]:
    """How many of the examples each trivial answer gets right, by the verifier: name (BASELINES) -> count."""
    right = {}
    for name, answers in baseline_answers(task, examples).items():
        verdicts = scheduler.verify(task.check(example, answer) for example, answer in zip(examples, answers, strict=True))
        right[name] = sum(verdict.score == 1 for verdict in verdicts)
    return right
