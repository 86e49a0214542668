"""What an audit works on: the run's files as read, what was found by execution, and the task they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefkit.context import Context
from prefkit.data import receipts
from prefkit.data.audit import Item
from prefkit.data.audit_read import Columns, Reader
from prefkit.data.audit_rows import Known, Rollouts
from prefkit.data.findings import Findings, Problem
from prefkit.recipe import Recipe
from prefkit.tasks.base import Example
from prefkit.verify.extract import extract_sql

Row = dict[str, Any]
ANSWER: Columns = {
    "policy": "text", "split": "text", "example_id": "text", "database": "text", "level": "whole", "question": "text", "gold": "text",
    "kind": "text", "k": "whole", "completion": "text", "sql": "text?", "tokens": "whole", "ended": "flag", "status": "text",
    "score": "number?", "reason": "text", "key": "text?", "model": "text?+", "adapter": "text?+", "template": "text?+",
    "trust": "text?+", "versions": "text?+", "data_hash": "text?+", "content_hash": "text?+",
}  # fmt: skip


@dataclass(slots=True)
class Answers:
    """One file of evaluation answers, with their items in the same order."""

    file: str
    rows: list[Row]
    items: list[Item]

    @property
    def judged(self) -> list[Row]:
        """The rows with the status, score and reason that hold."""
        return [{**row, **{name: item.judged[name] for name in ("status", "score", "reason", "trust")}} for row, item in self.pairs]

    @property
    def pairs(self) -> list[tuple[Row, Item]]:
        return list(zip(self.rows, self.items, strict=True))


@dataclass(slots=True)
class Facts:
    """One run (or one evaluation folder) under audit. context: for what the recipe takes of the task; None where there is no task.

    pairs, trajectories: rows by file, as they hold after execution. repairs: the rows that trajectories give, by stage of corrections.
    gold_faults, planted: what the readiness check finds when it is made again; None where it was not.
    """

    reader: Reader
    recipe: Recipe | None
    context: Context | None
    known: Known
    entries: dict[str, Row]
    metrics: list[Row] = field(default_factory=list)
    rollouts: dict[str, Rollouts] = field(default_factory=dict)
    answers: dict[str, Answers] = field(default_factory=dict)
    pairs: dict[str, list[Row]] = field(default_factory=dict)
    trajectories: dict[str, list[Row]] = field(default_factory=dict)
    repairs: dict[str, list[Row]] = field(default_factory=dict)
    gold_faults: dict[str, str] | None = None
    planted: tuple[int, int] | None = None

    @property
    def findings(self) -> Findings:
        return self.reader.findings

    def entries_with(self, again: Mapping[str, Row]) -> dict[str, Row]:
        """The stages' entries with the figures that were computed again in the places of the written ones."""
        return {name: {**entry, "figures": {**entry["figures"], **again.get(name, {})}} for name, entry in self.entries.items()}

    def steps(self, stage: str) -> list[Row]:
        """The lines of metrics.jsonl of one stage."""
        return [row for row in self.metrics if row.get("stage") == stage]


def read_answers(facts: Facts, file: str) -> Answers:
    """Read one file of answers; each row is checked against its question and its own hash."""
    result, seen = Answers(file, [], []), set()
    for row in facts.reader.rows(file, ANSWER):
        name = answer_name(row)
        example = facts.known.examples.get(row["example_id"])
        problems = list(_problems(file, row, example, facts))
        if name in seen:
            problems.append(("row", "one answer", "two answers of this policy, question, kind and k"))
        for problem in problems:  # the row is counted when it is executed
            facts.findings.add("answers", file, name, problem)
        if name in seen:
            continue
        seen.add(name)
        if example is None:
            example = Example(row["example_id"], row["split"], row["database"], row["level"], row["question"], row["gold"])
        written = {key: row[key] for key in ("status", "score", "reason", "key", "trust", "versions", "data_hash")}
        result.rows.append(row)
        result.items.append(Item("answers", file, name, example, row["completion"], written))
    return result


def answer_name(row: Row) -> str:
    """How an answer is called in a message: policy/question/greedy or policy/question/sample-k."""
    return f"{row['policy']}/{row['example_id']}/{row['kind']}" + (f"-{row['k']}" if row["kind"] == "sample" else "")


def _problems(file: str, row: Row, example: Example | None, facts: Facts) -> Iterator[Problem]:
    if row["content_hash"] is not None and row["content_hash"] != receipts.content_hash(row, receipts.ANSWER):
        yield "content_hash (the answer was changed)", row["content_hash"], "another hash"
    if row["sql"] != extract_sql(row["completion"]):
        yield "sql", row["sql"], extract_sql(row["completion"])
    if row["kind"] not in ("greedy", "sample"):
        yield "kind", row["kind"], "greedy or sample"
    place = file, row["policy"]
    wanted = facts.known.adapters.get(place, row["adapter"])
    if row["adapter"] != wanted and file not in facts.reader.lacking.get("adapter", ()):
        yield "adapter", row["adapter"], wanted
    task = facts.known.task
    if task is None:
        return
    if example is None:
        yield "example_id", row["example_id"], "no such question in the task"
        return
    about = {"split": example.split, "database": example.database, "level": example.level, "question": example.question}
    for name, value in {**about, "gold": example.golds[0]}.items():
        if row[name] != value:
            yield name, row[name], value
    if row["template"] not in (None, task.template):
        facts.findings.skip("answers to prompts of another template than this version's", 1)


def check_complete(facts: Facts, answers: Answers, examples: Sequence[Example], greedy: bool, k: int) -> None:
    """Every policy answered every question as often as the recipe says."""
    there = {answer_name(row) for row in answers.rows}
    kinds = ["greedy"] * greedy + [f"sample-{number}" for number in range(k)]
    for policy in dict.fromkeys(row["policy"] for row in answers.rows):
        for example in examples:
            for kind in kinds:
                if (name := f"{policy}/{example.id}/{kind}") not in there:
                    facts.findings.add("answers", answers.file, name, ("row", "an answer", "none"))
    known = {example.id for example in examples}
    for row in answers.rows:
        if row["example_id"] not in known:
            problem = "example_id", row["example_id"], "no question of this evaluation"
            facts.findings.add("answers", answers.file, answer_name(row), problem)
