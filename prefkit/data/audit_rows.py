"""What can be checked of a run's rollouts without executing anything, and all that a row may name.

| rollout of       | must be                                                                                                  |
|------------------|----------------------------------------------------------------------------------------------------------|
| every stage      | its content hash; its example's split, database and level; with a verdict of its id                      |
| a first turn     | the prompt as the task words it                                                                          |
| a further turn   | its parent's conversation with the verifier's feedback                                                   |
| pairs-N          | a mutation of its parent, or of a gold: with the same prompt                                             |
| history          | out of production: its verdict has no addresses in its feedback, so status, score and reason are compared |

audit_pairs.py and audit_turns.py check the rows that name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefkit.data import receipts
from prefkit.data.audit import Item
from prefkit.data.audit_read import Columns, Reader
from prefkit.data.findings import Findings, Problem
from prefkit.tasks.base import Example, Task

Row = dict[str, Any]
MUTATIONS, HISTORY = "mutation", "history"
"""Models that are none: answers made out of others, and answers out of production logs."""
ROLLOUT: Columns = {
    "id": "text", "example_id": "text", "split": "text", "database": "text", "level": "whole", "messages": "messages", "prompt_ids": "ids",
    "completion": "text", "completion_ids": "ids", "ended": "flag", "k": "whole", "temperature": "number", "seed": "whole", "model": "text",
    "turn": "whole", "parent": "text?", "adapter": "text?+", "template": "text?+", "content_hash": "text?+",
}  # fmt: skip
VERDICT: Columns = {
    "id": "text", "status": "text", "score": "number?", "reason": "text", "feedback": "text?", "trust": "text", "tier": "text",
    "key": "text", "versions": "text", "data_hash": "text?+",
}  # fmt: skip
MUTATION: Columns = {**ROLLOUT, "mutation": "text"}
RECEIPT: Columns = {"model": "text?+", "template": "text?+", "versions": "text?+", "data_hash": "text?+"}
"""What a training row rests on, beside its rollouts."""


@dataclass(slots=True)
class Rollouts:
    """One file of rollouts with its verdicts, as items in the order of the file. rows: without log-probabilities."""

    stage: str
    rows: list[Row]
    items: list[Item]

    @property
    def judged(self) -> tuple[list[Row], list[Row]]:
        """The rows, and their verdicts as they hold."""
        return self.rows, [item.judged for item in self.items]


@dataclass(slots=True)
class Known:
    """All that rows may name: examples by id, rollouts with their items by id, the task (None where it cannot be loaded).

    adapters: stage of rollouts, or file and policy of answers -> hash of the weights that answered; what is not in it is not compared.
    on_references: stages of rollouts whose round is on references; None where no recipe says it. repairs: stage of corrections -> id ->
    the training row that a trajectory gives.
    """

    task: Task | None
    examples: dict[str, Example]
    rollouts: dict[str, tuple[Row, Item]]
    model: str
    seed: int
    adapters: dict[str | tuple[str, str], str | None] = field(default_factory=dict)
    on_references: frozenset[str] | None = None
    repairs: dict[str, dict[str, Row]] = field(default_factory=dict)


def read_rollouts(reader: Reader, stage: str, known: Known) -> Rollouts:
    """Read rollouts and verdicts of a stage, and pair them by id; what has no partner or no question is a finding and left out."""
    file, verdict_file = f"rollouts/{stage}.parquet", f"verdicts/{stage}.parquet"
    verdicts: dict[str, Row] = {}
    for verdict in reader.rows(verdict_file, VERDICT):
        if verdict["id"] in verdicts:
            reader.findings.add("verdicts", verdict_file, verdict["id"], ("id", "one row", "two rows of this id"))
        verdicts[verdict["id"]] = verdict
    result, shared = Rollouts(stage, [], []), {}
    for row in reader.rows(file, MUTATION if stage.startswith("pairs-") else ROLLOUT):
        verdict, example = verdicts.pop(row["id"], None), known.examples.get(row["example_id"])
        if verdict is None or row["id"] in known.rollouts:
            found = "no such row, or two rollouts of this id" if verdict is None else "another rollout of this id"
            reader.findings.row("rollouts", file, row["id"], [("verdict", "a row of this id", found)])
            continue
        problems = [] if _sealed(row, receipts.ROLLOUT) else [_broken_seal(row)]
        _share(row, shared)
        if example is None:
            if known.task is not None:
                problems.append(("example_id", row["example_id"], "no such question in the task"))
            example = Example(row["example_id"], row["split"], row["database"], row["level"], "", "")
        item = Item("verdicts", verdict_file, row["id"], example, row["completion"], verdict)
        if stage == HISTORY:
            item.compared = ("reason",)
        result.rows.append(row)
        result.items.append(item)
        known.rollouts[row["id"]] = row, item
        for problem in problems:  # the row is counted when the rest of it is checked
            reader.findings.add("rollouts", file, row["id"], problem)
    for left in verdicts:
        reader.findings.add("verdicts", verdict_file, left, ("rollout", "a row of this id", "no such row"))
    return result


def _sealed(row: Row, columns: Sequence[str]) -> bool:
    if row.get("content_hash") is None:
        return True
    plain = {name: list(value) if name in ("prompt_ids", "completion_ids") else value for name, value in row.items()}
    return receipts.content_hash(plain, columns) == row["content_hash"]


def _broken_seal(row: Row) -> Problem:
    return "content_hash (the answer, its prompt or its tokens were changed)", row["content_hash"], "another hash"


def _share(row: Row, shared: dict[Any, Any]) -> None:
    """Let equal prompts be one object: a run asks each question many times."""
    row["prompt_ids"] = shared.setdefault(("ids", row["prompt_ids"].tobytes()), row["prompt_ids"])
    key = ("messages", *(text for message in row["messages"] for text in message.values()))
    row["messages"] = shared.setdefault(key, row["messages"])


def check_rollouts(reader: Reader, rollouts: Rollouts, known: Known) -> None:
    """Each rollout against its question, its prompt, its parent, and the weights that answered."""
    file, findings = f"rollouts/{rollouts.stage}.parquet", reader.findings
    sealed = file not in reader.lacking.get("adapter", ())
    for row, item in zip(rollouts.rows, rollouts.items, strict=True):
        problems = list(_rollout_problems(row, item, known, rollouts.stage, findings))
        if sealed and rollouts.stage in known.adapters and row["model"] == known.model:
            wanted = known.adapters[rollouts.stage]
            problems += [("adapter", row["adapter"], wanted)] if row["adapter"] != wanted else []
        findings.row("rollouts", file, row["id"], problems)


def _rollout_problems(row: Row, item: Item, known: Known, stage: str, findings: Findings) -> Iterator[Problem]:
    if known.task is not None:
        for name in ("split", "database", "level"):
            if row[name] != getattr(item.example, name):
                yield name, row[name], getattr(item.example, name)
    model = HISTORY if stage == HISTORY else MUTATIONS if stage.startswith("pairs-") else known.model
    if known.model and row["model"] != model:
        yield "model", row["model"], model
    if known.model and row["seed"] != known.seed and model == known.model:
        yield "seed", row["seed"], known.seed
    if stage.startswith("pairs-") and row["mutation"] != row["id"].split("/")[-2:][0]:
        yield "mutation", row["mutation"], row["id"]
    yield from _prompt_problems(row, item, known, findings)


def _prompt_problems(row: Row, item: Item, known: Known, findings: Findings) -> Iterator[Problem]:
    """The messages as the task words them; those of a later turn go on from the parent's turn."""
    if row["model"] == HISTORY:
        findings.skip("prompts of answers out of production, which were worded when they were ingested", 1)
    elif row["parent"] is not None:
        if row["parent"] not in known.rollouts:
            yield "parent", row["parent"], "no such rollout"
            return
        parent, parent_item = known.rollouts[row["parent"]]
        if row["model"] != MUTATIONS:
            yield from _turn_problems(row["messages"], parent["messages"], parent["completion"], parent_item)
        elif parent["model"] != HISTORY and row["messages"] != parent["messages"]:
            yield "messages", row["messages"], parent["messages"]
        elif parent["model"] != HISTORY and row["prompt_ids"] != parent["prompt_ids"]:
            yield "prompt_ids", "other token ids", "those of its parent"
    elif known.task is None:
        findings.skip("prompts of answers whose question cannot be had", 1)
    elif row["template"] not in (None, known.task.template):
        findings.skip("prompts that were worded by another template than this version's", 1)
    elif item.example.gold and (wanted := known.task.prompt(item.example)) != row["messages"]:
        yield "messages", row["messages"], wanted


def _turn_problems(messages: list[Row], before: list[Row], answer: str, item: Item) -> Iterator[Problem]:
    """`messages` go on from the prompt `before` with the answer and what the verifier said of it."""
    feedback = item.judged["feedback"]
    wanted = [*before, {"role": "assistant", "content": answer}]
    if messages[:-1] != wanted:
        yield "messages", messages[:-1], wanted
    elif messages[-1]["role"] != "user" or not feedback or feedback not in messages[-1]["content"]:
        yield "messages, feedback", messages[-1]["content"], feedback


def receipt_problems(row: Row, known: Known, rollouts: Iterable[str | None]) -> Iterator[Problem]:
    """Model, template, verifier and data of a training row: as its rollouts have them; where it names none, as the task has them now."""
    found = [known.rollouts[name] for name in rollouts if name in known.rollouts]
    wanted: Row = {"model": known.model or None}
    if known.task is not None:
        wanted["template"] = found[0][0]["template"] if found else known.task.template
    executed = next((item.written for _, item in found if item.written["data_hash"] is not None), None)
    if executed is not None:
        wanted.update({name: executed[name] for name in ("versions", "data_hash")})
    for name, value in wanted.items():
        if row.get(name) is not None and value is not None and row[name] != value:
            yield name, row[name], value


def question_problems(row: Row, known: Known) -> Iterator[Problem]:
    """The question of a training row, with its database and level."""
    example = known.examples.get(row["example_id"])
    if known.task is None:
        return
    if example is None:
        yield "example_id", row["example_id"], "no such question in the task"
        return
    for name in ("database", "level"):
        if row[name] != getattr(example, name):
            yield name, row[name], getattr(example, name)
