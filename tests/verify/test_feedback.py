"""Feedback holds nothing of the gold: over every question of the shipped dataset, it depends on the answer and its database alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from prefkit.resources import dataset_path
from prefkit.sandbox.job import Result
from prefkit.tasks.base import Example
from prefkit.tasks.sql import SqlTask
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import feedback_of

# It says of a result that is right on the first data instance alone that it is right by chance; nothing of what is right.
BY_CHANCE = feedback_of(Result("ok"), bytes.hex, agrees_somewhere=True)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> SqlTask:
    return SqlTask.from_dataset(dataset_path("sql-gen"), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def questions(task: SqlTask) -> dict[str, list[Example]]:
    """Every question by its database."""
    found: dict[str, list[Example]] = defaultdict(list)
    for split in task.splits:
        for example in task.load(split):
            found[example.database].append(example)
    return found


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with Scheduler(workers=2) as scheduler:
        yield scheduler


def test_feedback_is_the_same_whatever_the_gold(task: SqlTask, questions: dict[str, list[Example]], scheduler: Scheduler) -> None:
    """A wrong answer gets one feedback from all golds that it is wrong for. So no gold's text, rows, columns or their numbers can be in it:
    another gold would have left something else."""
    checks, asked = [], []
    for database, examples in questions.items():
        golds = list(dict.fromkeys(example.golds[0] for example in examples))
        for number, example in enumerate(examples):
            # Wrong in every way: other questions' queries, one that does not run, and none.
            others = [golds[(number * 7 + step) % len(golds)] for step in (1, 11)]
            answers = [*others, golds[number % 5], "SELECT nothing FROM nowhere", "I do not know."]
            for answer in answers:
                asked.append((database, answer))
                checks.append(task.check(example, answer, id=str(len(checks))))
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for verdict in scheduler.verify(checks):
        if verdict.score == 0:
            assert verdict.feedback
            found[asked[int(verdict.id)]][verdict.feedback] += 1
    several = {key: texts for key, texts in found.items() if sum(texts.values()) > 1}
    assert len(several) > 1000, "answers that met more than one gold"
    differing = {key: dict(texts) for key, texts in several.items() if len(texts.keys() - {BY_CHANCE}) > 1}
    assert differing == {}


def test_no_row_of_a_gold_stands_in_feedback(task: SqlTask, questions: dict[str, list[Example]], scheduler: Scheduler) -> None:
    """Answers that return nothing of their own get nothing of the gold's either: no value, no column name, no count."""
    checks = [
        task.check(example, answer, id=f"{number}/{answer}")
        for number, example in enumerate(example for examples in questions.values() for example in examples)
        for answer in ("SELECT NULL AS z WHERE 0", "SELECT zz FROM zz")
    ]
    texts = {verdict.feedback for verdict in scheduler.verify(checks) if verdict.score == 0}
    assert texts - {BY_CHANCE} == {
        "The query runs, but its result is wrong. It returns no rows; columns: z.",
        "The query does not run: no such table: zz.",
    }
