"""Answers are executed again and compared with what is written; what depends on the machine is executed once more, alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data.audit import Item, drawn, execute
from prefkit.data.findings import Findings, differing, same
from prefkit.progress import quiet
from prefkit.verify.verdict import Status, Verdict

if TYPE_CHECKING:
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
ANSWERS = {
    "shop/names": ["SELECT name FROM item", "SELECT kind FROM item"],
    "farm/count": ["no idea", "SELECT COUNT(*) FROM item"],
    "shop/dearest": ["SELECT nothing FROM item", "DELETE FROM item"],
}


@pytest.fixture
def items(answered: Callable[..., Any], task: SqlTask) -> list[Item]:
    """Right and wrong answers with their verdicts."""
    by_id = {example.id: example for example in task.load("train")}
    rows, verdicts = answered(ANSWERS)
    return [
        Item("verdicts", "verdicts/a.parquet", row["id"], by_id[row["example_id"]], row["completion"], verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
    ]


def run(items: list[Item], task: SqlTask, scheduler: Any) -> Findings:
    findings = Findings()
    execute(items, task, scheduler, findings, quiet())
    return findings


def test_what_was_written_is_found_again(items: list[Item], task: SqlTask, scheduler: Scheduler) -> None:
    findings = run(items, task, scheduler)
    assert findings.agrees and findings.checked["verdicts"] == findings.agreeing("verdicts") == len(items)
    assert findings.checked["databases"] == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [("status", "PASS"), ("score", 1.0), ("reason", "other"), ("feedback", "The right query is …"), ("key", "0"), ("trust", "model")],
)
def test_each_column_is_compared(column: str, value: Any, items: list[Item], task: SqlTask, scheduler: Scheduler) -> None:
    items[1].written[column] = value
    findings = run(items, task, scheduler)
    assert [(found.row, found.what) for found in findings.disagreements] == [(items[1].row, column)]
    assert findings.agreeing("verdicts") == len(items) - 1


def test_verdicts_of_another_verifier_are_compared_by_status_and_score_alone(
    items: list[Item], task: SqlTask, scheduler: Scheduler
) -> None:
    for item in items:
        item.written.update(versions='{"judge": "sql-compare/0"}', key="0", reason="in other words")
    assert run(items, task, scheduler).agrees
    items[0].written.update(status="WRONG", score=0.0)
    findings = run(items, task, scheduler)
    assert {found.what for found in findings.disagreements} == {"status", "score"}
    assert any("sql-compare/0" in reason and count == len(items) for reason, count in findings.not_checked.items())


def test_rows_without_a_data_hash_show_another_database_by_their_keys(items: list[Item], task: SqlTask, scheduler: Scheduler) -> None:
    for item in items:
        del item.written["data_hash"]
        if item.example.database == "shop":
            item.written["key"] = "0"
    findings = run(items, task, scheduler)
    assert [(found.group, found.row) for found in findings.disagreements] == [("databases", "shop")]


def test_a_label_near_a_limit_is_executed_again_alone(items: list[Item], task: SqlTask, scheduler: Scheduler) -> None:
    items[0].written.update(status="TIMEOUT", score=0.0, reason="time limit: steps")
    findings = run(items, task, scheduler)
    assert [(found.what, found.near_limit) for found in findings.disagreements] == [("status", True), ("score", True)]


def test_a_time_out_that_goes_away_alone_is_no_disagreement(items: list[Item], task: SqlTask, scheduler: Scheduler) -> None:
    class Busy:
        """A machine on which the first answer runs out of time."""

        def verify(self, checks: Iterable[Any]) -> Iterator[Verdict]:
            for number, verdict in enumerate(scheduler.verify(checks)):
                yield verdict if number else replace(verdict, status=Status.TIMEOUT, score=0.0, reason="time limit: processor time")

    findings = run(items, task, Busy())
    assert findings.agrees
    assert [(found.row, found.written, found.found) for found in findings.steadied] == [(items[0].row, "PASS", "TIMEOUT")]
    assert findings.agreeing("verdicts") == len(items)


def test_a_sample_is_of_its_size_and_the_rest_is_counted(items: list[Item]) -> None:
    findings = Findings()
    draws = [[item.row for item in drawn(items, 4, seed, findings)] for seed in (1, 1, 2, 3, 4)]
    assert {len(rows) for rows in draws} == {4}
    assert draws[0] == draws[1] and len({tuple(rows) for rows in draws}) > 1
    assert sum(findings.not_checked.values()) == 5 * (len(items) - 4)
    assert drawn(items, 100, 0, findings) == items


def test_figures_agree_to_what_rounding_may_differ_by() -> None:
    assert same(0.1 + 0.2, 0.3) and same(float("nan"), float("nan")) is False
    assert not same(0.3, 0.3000001) and not same(1, True) and not same("1", 1) and not same(None, 0)


def test_long_texts_are_cut_to_where_they_differ() -> None:
    written, found = differing("a" * 5000 + "1" + "b" * 5000, "a" * 5000 + "2" + "b" * 5000)
    assert len(written) < 200 and written != found and "1" in written and "2" in found
