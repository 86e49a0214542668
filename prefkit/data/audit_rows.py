"""What can be checked of a run's rollouts, pairs and trajectories without executing anything: each row against the rows it names.

| row                | must be                                                                                                     |
|--------------------|-------------------------------------------------------------------------------------------------------------|
| rollout            | its content hash; its example's split, database and level; its prompt as the task words it, or its parent's  |
|                    | turn with the verifier's feedback; with a verdict of its id                                                 |
| pair               | of rollouts that exist, with their prompt, texts and token ids; chosen right, rejected wrong, with their keys |
| trajectory         | turns that are rollouts with their verdicts and feedback, in order; `end` as the last turn says              |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefkit.data import receipts
from prefkit.data.audit import Item
from prefkit.data.audit_read import Columns, Reader
from prefkit.data.findings import ABSENT, Findings, Problem
from prefkit.tasks.base import Example, Task
from prefkit.verify.extract import extract_sql

Row = dict[str, Any]
OTHERS = ("mutation", "history")
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
RECEIPT: Columns = {"model": "text?+", "template": "text?+", "versions": "text?+", "data_hash": "text?+"}
PAIR: Columns = {
    "id": "text", "example_id": "text", "database": "text", "level": "whole", "prompt": "messages", "chosen": "messages",
    "rejected": "messages?", "prompt_ids": "ids", "chosen_ids": "ids", "rejected_ids": "ids?", "source": "text", "chosen_rollout": "text?",
    "rejected_rollout": "text?", "chosen_verdict": "text?", "rejected_verdict": "text?", "rejected_status": "text?",
    **RECEIPT,
}  # fmt: skip
TRAJECTORY: Columns = {
    "id": "text", "example_id": "text", "database": "text", "level": "whole", "prompt": "messages", "completion": "messages",
    "turns": "turns", "end": "text", **RECEIPT,
}  # fmt: skip


@dataclass(slots=True)
class Rollouts:
    """One file of rollouts with its verdicts, as items in the order of the file. rows: without log-probabilities."""

    stage: str
    rows: list[Row]
    items: list[Item]


@dataclass(slots=True)
class Known:
    """All that rows may name: examples by id, rollouts with their items by id, the task (None where it cannot be loaded).

    adapters: stage of rollouts, or file and policy of answers -> hash of the weights that answered; what is not in it is not compared.
    """

    task: Task | None
    examples: dict[str, Example]
    rollouts: dict[str, tuple[Row, Item]]
    model: str
    seed: int
    adapters: dict[str | tuple[str, str], str | None] = field(default_factory=dict)


def read_rollouts(reader: Reader, stage: str, known: Known) -> Rollouts:
    """Read rollouts and verdicts of a stage, and pair them by id; what has no partner or no question is a finding and left out."""
    file, verdict_file = f"rollouts/{stage}.parquet", f"verdicts/{stage}.parquet"
    verdicts: dict[str, Row] = {}
    for verdict in reader.rows(verdict_file, VERDICT):
        if verdict["id"] in verdicts:
            reader.findings.add("verdicts", verdict_file, verdict["id"], ("id", "one row", "two rows of this id"))
        verdicts[verdict["id"]] = verdict
    result, shared = Rollouts(stage, [], []), {}
    for row in reader.rows(file, ROLLOUT):
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
        problems = list(_rollout_problems(row, item, known, findings))
        if sealed and rollouts.stage in known.adapters and row["model"] == known.model:
            wanted = known.adapters[rollouts.stage]
            problems += [("adapter", row["adapter"], wanted)] if row["adapter"] != wanted else []
        findings.row("rollouts", file, row["id"], problems)


def _rollout_problems(row: Row, item: Item, known: Known, findings: Findings) -> Iterator[Problem]:
    if known.task is not None:
        for name in ("split", "database", "level"):
            if row[name] != getattr(item.example, name):
                yield name, row[name], getattr(item.example, name)
    if row["model"] not in (known.model, *OTHERS):
        yield "model", row["model"], known.model
    if row["seed"] != known.seed and row["model"] not in OTHERS:
        yield "seed", row["seed"], known.seed
    yield from _prompt_problems(row, item, known, findings)


def _prompt_problems(row: Row, item: Item, known: Known, findings: Findings) -> Iterator[Problem]:
    """The messages as the task words them; those of a later turn go on from the parent's turn."""
    if row["parent"] is not None:
        if row["parent"] not in known.rollouts:
            yield "parent", row["parent"], "no such rollout"
            return
        parent, parent_item = known.rollouts[row["parent"]]
        if row["model"] == "mutation":
            if row["messages"] != parent["messages"]:
                yield "messages", row["messages"], parent["messages"]
        else:
            yield from _turn_problems("messages", row["messages"], parent["messages"], parent["completion"], parent_item)
    elif known.task is None or row["model"] == "history":
        findings.skip("prompts of answers whose question cannot be had", 1)
    elif row["template"] not in (None, known.task.template):
        findings.skip("prompts that were worded by another template than this version's", 1)
    elif item.example.gold and (wanted := known.task.prompt(item.example)) != row["messages"]:
        yield "messages", row["messages"], wanted


def _turn_problems(what: str, messages: list[Row], before: list[Row], answer: str, item: Item) -> Iterator[Problem]:
    """`messages` go on from the prompt `before` with the answer and what the verifier said of it."""
    feedback = _feedback(item)
    wanted = [*before, {"role": "assistant", "content": answer}]
    if messages[:-1] != wanted:
        yield what, messages[:-1], wanted
    elif messages[-1]["role"] != "user" or not feedback or feedback not in messages[-1]["content"]:
        yield f"{what}, feedback", messages[-1]["content"], feedback


def _feedback(item: Item) -> str | None:
    """What the verifier says of an answer: as found again, where that can be compared."""
    if item.found is not None and item.found.key == item.written["key"]:
        return item.found.feedback
    return item.written["feedback"]


def check_pairs(reader: Reader, file: str, known: Known) -> list[Row]:
    """Each pair against its question and its rollouts. Returns the rows."""
    rows, seen = [], set()
    unread = 0
    for row in reader.rows(file, PAIR):
        problems = [*_pair_problems(row, known), *_receipt_problems(row, known)]
        if row["id"] in seen:
            problems.append(("id", "one row", "two rows of this id"))
        seen.add(row["id"])
        reader.findings.row("pairs", file, row["id"], problems)
        unread += row["chosen_rollout"] is None
        rows.append(row)
    if unread:
        reader.findings.skip("token ids in pairs with a reference (that takes the model's tokenizer)", unread)
    return rows


def _pair_problems(row: Row, known: Known) -> Iterator[Problem]:
    example = known.examples.get(row["example_id"])
    if known.task is not None:
        if example is None:
            yield "example_id", row["example_id"], "no such question in the task"
            return
        for name in ("database", "level"):
            if row[name] != getattr(example, name):
                yield name, row[name], getattr(example, name)
    chosen, rejected = (_text(row[side]) for side in ("chosen", "rejected"))
    sides = [known.rollouts.get(row[f"{side}_rollout"] or "") for side in ("chosen", "rejected")]
    if _swapped(chosen, rejected, sides):
        yield "chosen and rejected", f"chosen {chosen!r}", "swapped: the rejected one is right, the chosen one wrong"
        return
    if row["source"] == "reference":
        yield from _reference_problems(row, chosen, example, known)
    else:
        yield from _side_problems(row, "chosen", chosen, sides[0], known, right=True)
    parts = [row[name] is None for name in ("rejected", "rejected_ids", "rejected_rollout", "rejected_verdict", "rejected_status")]
    if any(parts) and not all(parts):
        yield "rejected", "a whole side or none", "parts of it are missing"
    elif not any(parts):
        yield from _side_problems(row, "rejected", rejected, sides[1], known, right=False)


def _receipt_problems(row: Row, known: Known) -> Iterator[Problem]:
    """Model, template, verifier and data as its rollouts have them; of a row that names none, as the task has them now."""
    names = [row.get("chosen_rollout"), row.get("rejected_rollout"), *(turn.get("rollout") for turn in row.get("turns") or ())]
    rollouts = [known.rollouts[name] for name in names if name in known.rollouts]
    wanted: Row = {"model": known.model or None}
    if known.task is not None:
        wanted["template"] = rollouts[0][0]["template"] if rollouts else known.task.template
    if rollouts:
        wanted.update({name: rollouts[0][1].written[name] for name in ("versions", "data_hash")})
    for name, value in wanted.items():
        if row[name] is not None and value is not None and row[name] != value:
            yield name, row[name], value


def _swapped(chosen: str | None, rejected: str | None, sides: Sequence[tuple[Row, Item] | None]) -> bool:
    """Whether the two texts, or the two sides with all that they name, stand in each other's places."""
    first, second = sides
    if first is not None and second is not None and first[1].score == 0 and second[1].score == 1:
        return True
    texts = [side[0]["completion"] if side is not None else None for side in sides]
    if first is None and second is not None:  # a reference: only the rejected side has a rollout
        return chosen is not None and chosen in (texts[1], extract_sql(texts[1] or "")) and chosen != rejected
    return None not in texts and chosen == texts[1] and rejected == texts[0] and chosen != rejected


def _reference_problems(row: Row, chosen: str | None, example: Example | None, known: Known) -> Iterator[Problem]:
    if example is not None and chosen not in example.golds:
        yield "chosen", chosen, example.golds[0]
    for name in ("chosen_rollout", "chosen_verdict"):
        if row[name] is not None:
            yield name, row[name], None
    if example is not None and known.task is not None and row["prompt"] != known.task.prompt(example):
        yield "prompt", row["prompt"], known.task.prompt(example)


def _side_problems(row: Row, side: str, text: str | None, named: tuple[Row, Item] | None, known: Known, right: bool) -> Iterator[Problem]:
    """One side of a pair against the rollout and the verdict that it names."""
    if named is None:
        yield f"{side}_rollout", row[f"{side}_rollout"], "no such rollout"
        return
    rollout, item = named
    if rollout["example_id"] != row["example_id"]:
        yield f"{side}_rollout", row["example_id"], f"a rollout of {rollout['example_id']}"
    # Against a reference stands the query alone, as the verifier took it out of the answer; its tokens are its own.
    query_alone = row["source"] == "reference"
    wanted = extract_sql(rollout["completion"]) if query_alone else rollout["completion"]
    if text != wanted:
        yield side, text, wanted
    elif not query_alone and list(row[f"{side}_ids"]) != list(rollout["completion_ids"]):
        yield f"{side}_ids", "other token ids", "those of the rollout"
    if row["prompt"] != rollout["messages"]:
        yield "prompt", row["prompt"], rollout["messages"]
    elif list(row["prompt_ids"]) != list(rollout["prompt_ids"]):
        yield "prompt_ids", "other token ids", "those of the rollout"
    keys = (item.written["key"], item.found.key if item.found else "")
    if row[f"{side}_verdict"] not in keys:
        yield f"{side}_verdict", row[f"{side}_verdict"], keys[0]
    if side == "rejected" and row["rejected_status"] != item.status:
        yield "rejected_status", row["rejected_status"], item.status
    if item.score != float(right):
        yield f"{side}, verdict", "PASS" if right else "not PASS", item.status


def _text(messages: list[Row] | None) -> str | None:
    return messages[-1]["content"] if messages else None


def check_trajectories(reader: Reader, file: str, known: Known) -> list[Row]:
    """Each trajectory against its rollouts. Returns the rows."""
    rows = []
    for row in reader.rows(file, TRAJECTORY):
        reader.findings.row("trajectories", file, row["id"], [*_trajectory_problems(row, known), *_receipt_problems(row, known)])
        rows.append(row)
    return rows


def _trajectory_problems(row: Row, known: Known) -> Iterator[Problem]:
    turns = row["turns"]
    if not turns:
        yield "turns", "one or more", "none"
        return
    for number, turn in enumerate(turns):
        yield from _turn(f"turn {number}", turn, row, known)
    last = turns[-1]
    passed = last.get("status") == "PASS"
    end = "open" if not passed else "repaired" if last.get("rollout") is not None else "reference"
    if row["end"] != end:
        yield "end", row["end"], end
    if _text(row["completion"]) != last.get("content"):
        yield "completion", _text(row["completion"]), last.get("content")
    yield from _prompt_of_last(row, known)


def _turn(name: str, turn: Mapping[str, Any], row: Row, known: Known) -> Iterator[Problem]:
    rollout = turn.get("rollout")
    if rollout is None:
        example = known.examples.get(row["example_id"])
        if example is not None and turn.get("content") not in example.golds:
            yield f"{name}, content", turn.get("content"), example.golds[0]
        return
    if rollout not in known.rollouts:
        yield f"{name}, rollout", rollout, "no such rollout"
        return
    answer, item = known.rollouts[rollout]
    found = {"content": answer["completion"], "verdict": item.written["key"], "status": item.status, "feedback": _feedback(item)}
    if answer["example_id"] != row["example_id"]:
        yield f"{name}, rollout", row["example_id"], f"a rollout of {answer['example_id']}"
    for part, value in found.items():
        if turn.get(part, ABSENT) != value:
            yield f"{name}, {part}", turn.get(part, ABSENT), value
    if turn.get("train") and item.score != 1:
        yield f"{name}, train", True, "an answer that is not right is not trained on"


def _prompt_of_last(row: Row, known: Known) -> Iterator[Problem]:
    """The prompt is the one that the last turn answered: the turns before it, each with its feedback."""
    turns = row["turns"]
    if len(turns) < 2:
        return
    before = known.rollouts.get(turns[-2].get("rollout") or "")
    if before is not None:
        yield from _turn_problems("prompt", row["prompt"], before[0]["messages"], before[0]["completion"], before[1])
