"""Trajectories against the rollouts that they are made of.

Those of a run are made again from its rollouts and verdicts as they hold after execution, by the functions that made them, and compared
column by column: turns, tries, fresh answers, labels, end. Those out of production name their rollouts, with which they are compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prefkit.data import corrections
from prefkit.data.audit_read import Columns, Reader
from prefkit.data.audit_rows import RECEIPT, Known, Rollouts, Row, question_problems, receipt_problems
from prefkit.data.findings import ABSENT, Problem, same
from prefkit.data.trajectories import NO_LABEL, Trajectory
from prefkit.tasks.base import Example

LOGGED: Columns = {
    "id": "text", "example_id": "text", "database": "text", "level": "whole", "prompt": "messages", "completion": "messages?",
    "turns": "turns", "end": "text",
}  # fmt: skip
TRAJECTORY: Columns = {**LOGGED, "input_ids": "ids?+", "labels": "ids?+", "fresh": "receipts?+", **RECEIPT}


def check_trajectories(
    reader: Reader, file: str, known: Known, rounds: tuple[Rollouts, Rollouts], tried: Sequence[Example] | None
) -> tuple[list[Row], list[Row]] | None:
    """Each trajectory of a round against what its rollouts give. Returns the trajectories and their training rows as they hold; None
    where they are an older version's, which cannot be made again.

    rounds: the rollouts of the round and of its corrections. tried: the questions that get corrections; None where that cannot be told.
    """
    first, later = rounds
    written: dict[str, Row] = {}
    for row in reader.rows(file, TRAJECTORY):
        if row["example_id"] in written:
            reader.findings.add("trajectories", file, row["id"], ("row", "one of this question", "two"))
        written[row["example_id"]] = row
    if file in reader.lacking.get("fresh", ()):
        reader.findings.skip("trajectories of an older version", len(written))
        return None
    if tried is None:
        asked = {item.example.id for item in later.items}
        tried = list({item.example.id: item.example for item in first.items if item.example.id in asked}.values())
    found = corrections.replayed(tried, first.judged, later.judged)
    if first.stage in (known.on_references or ()):
        for one in corrections.unsolved(found):
            _close(one, written.get(one.example.id), known)
    rows = [one.row() for one in found]
    for row in rows:
        mine = written.pop(row["example_id"], None)
        problems = [("row", "a trajectory", "none")] if mine is None else [*_problems(mine, row), *_receipts(mine, known)]
        reader.findings.row("trajectories", file, row["id"] if mine is None else mine["id"], problems)
    for row in written.values():
        reader.findings.row("trajectories", file, row["id"], [("row", "no wrong answer that begins it", "a trajectory")])
    return rows, [pair for one in found if (pair := one.pair())]


def _close(one: Trajectory, written: Row | None, known: Known) -> None:
    """The gold in the place of the last answer. Its token ids take the model's tokenizer, so they are those of the row."""
    labels = [] if written is None else list(written["labels"] or ())
    one.reference = [label for label in labels if label != NO_LABEL]
    if known.task is None and written is not None and written["turns"]:
        one.example = replace(one.example, gold=str(written["turns"][-1].get("content")))


def _receipts(row: Row, known: Known) -> Iterator[Problem]:
    yield from question_problems(row, known)
    yield from receipt_problems(row, known, [turn.get("rollout") for turn in row["turns"]])


def _problems(written: Row, found: Row) -> Iterator[Problem]:
    """Every column of a trajectory that is not as it should be; of the turns, every part."""
    for name, value in found.items():
        if name in ("input_ids", "labels"):
            if list(written[name] or ()) != value:
                yield name, "other token ids", "those of its rollouts"
        elif name == "turns":
            yield from _listed("turn", written[name], value)
        elif name == "fresh":
            yield from _listed("fresh answer", written[name], value)
        elif not alike(written[name], value):
            yield name, written[name], value


def _listed(name: str, written: Any, found: Sequence[Row]) -> Iterator[Problem]:
    """Parts of rows in a row of their own."""
    if not isinstance(written, list) or len(written) != len(found):
        many = f"{name.removesuffix('try')}tries" if name.endswith("try") else f"{name}s"
        yield many, f"{len(written)} of them" if isinstance(written, list) else written, f"{len(found)} of them"
        return
    for number, (old, new) in enumerate(zip(written, found, strict=True)):
        for part, value in new.items():
            there = old.get(part, ABSENT) if isinstance(old, Mapping) else old
            if part == "tries":
                yield from _listed(f"{name} {number}, try", there, value)
            elif not alike(there, value):
                yield f"{name} {number}, {part}", there, value


def alike(written: Any, found: Any) -> bool:
    """Equal as the columns of rows are: token ids as lists or arrays, scores as numbers."""
    if isinstance(written, array | list) and isinstance(found, array | list):
        return list(written) == list(found)
    return same(written, found)


def check_logged(reader: Reader, file: str, known: Known) -> list[Row]:
    """Each trajectory out of production against the rollouts that it names. Returns the rows."""
    rows = []
    for row in reader.rows(file, LOGGED):
        reader.findings.row("trajectories", file, row["id"], [*question_problems(row, known), *_logged(row, known)])
        rows.append(row)
    return rows


def _logged(row: Row, known: Known) -> Iterator[Problem]:
    if len(row["turns"]) < 2:
        yield "turns", "two or more", len(row["turns"])
        return
    last = row["turns"][-1]
    for number, turn in enumerate(row["turns"]):
        yield from _logged_turn(f"turn {number}", turn, turn is last, row, known)
    ends = ("repaired", "reference") if last.get("status") == "PASS" else ("open",)
    if row["end"] not in ends:
        yield "end", row["end"], ends[0]
    text = row["completion"][-1]["content"] if row["completion"] else None
    if text != last.get("content"):
        yield "completion", text, last.get("content")
    example = known.examples.get(row["example_id"])
    if known.task is not None and example is not None:
        before = row["turns"][-2]
        wanted = known.task.correction_prompt(known.task.prompt(example), str(before.get("content")), str(before.get("feedback")))
        if row["prompt"][-2:] != list(wanted)[-2:]:
            yield "prompt", row["prompt"][-2:], list(wanted)[-2:]


def _logged_turn(name: str, turn: Mapping[str, Any], last: bool, row: Row, known: Known) -> Iterator[Problem]:
    rollout = turn.get("rollout")
    if rollout not in known.rollouts:
        yield f"{name}, rollout", rollout, "no such rollout"
        return
    answer, item = known.rollouts[rollout]
    if answer["example_id"] != row["example_id"]:
        yield f"{name}, rollout", row["example_id"], f"a rollout of {answer['example_id']}"
    train = last and item.score == 1
    for part, value in {"content": answer["completion"], "verdict": item.written["key"], "status": item.status, "train": train}.items():
        if turn.get(part, ABSENT) != value:
            yield f"{name}, {part}", turn.get(part, ABSENT), value
