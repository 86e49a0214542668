"""Pairs against the rollouts and verdicts that they name: texts, prompts, token ids, sources; the chosen side passed, the rejected did not.

A repair's row is made again from its trajectory and compared whole (see audit_turns.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from prefkit.data.audit import Item
from prefkit.data.audit_read import Columns, Reader
from prefkit.data.audit_rows import HISTORY, MUTATIONS, RECEIPT, Known, Row, question_problems, receipt_problems
from prefkit.data.audit_turns import alike
from prefkit.data.findings import Problem
from prefkit.tasks.base import Example
from prefkit.verify.extract import extract_sql
from prefkit.verify.trust import together

Named = tuple[Row, Item] | None
"""A rollout with its item; None for a reference, and for one that is not there."""
LOGGED: Columns = {
    "id": "text", "example_id": "text", "database": "text", "level": "whole", "prompt": "messages", "chosen": "messages",
    "rejected": "messages?", "prompt_ids": "ids", "chosen_ids": "ids", "rejected_ids": "ids?", "source": "text", "chosen_rollout": "text?",
    "rejected_rollout": "text?", "chosen_verdict": "text?", "rejected_verdict": "text?", "rejected_status": "text?",
    "rejected_source": "text?+",
}  # fmt: skip
PAIR: Columns = {**LOGGED, "rejected_reason": "text?+", "trust": "text?+", **RECEIPT}
_REJECTED = ("rejected", "rejected_ids", "rejected_rollout", "rejected_verdict", "rejected_status", "rejected_source", "rejected_reason")


def check_pairs(reader: Reader, file: str, known: Known) -> list[Row]:
    """Each pair against its question and its rollouts. Returns the rows as they hold after execution."""
    rows, seen = [], set()
    unread = 0
    stage = Path(file).stem
    repairs = known.repairs.get(stage.replace("round-", "corrections-"))
    for row in reader.rows(file, LOGGED if stage == HISTORY else PAIR):
        lacking = [name for name in row if file in reader.lacking.get(name, ())]
        problems = [*question_problems(row, known), *_problems(row, known, (repairs or {}).get(row["id"]), lacking)]
        if repairs is not None and row["id"] not in repairs and stage.startswith("corrections-"):
            problems.append(("row", "a repair", "no trajectory that ends in it"))
        problems += receipt_problems(row, known, [row["chosen_rollout"], row["rejected_rollout"]])
        if row["id"] in seen:
            problems.append(("id", "one row", "two rows of this id"))
        seen.add(row["id"])
        reader.findings.row("pairs", file, row["id"], problems)
        unread += row["id"] not in (repairs or {}) and (row["chosen_rollout"] is None or HISTORY in (row["source"], row["rejected_source"]))
        if _whole(row):
            rows.append(_holds(row, known))
    for name in (repairs or {}).keys() - seen if stage.startswith("corrections-") else ():
        reader.findings.row("pairs", file, name, [("row", "the repair of a trajectory", "none")])
    if unread:
        reader.findings.skip("token ids in pairs with a reference or a logged answer (that takes the model's tokenizer)", unread)
    return rows


def _whole(row: Row) -> bool:
    """Whether each side that is there has a text, so that figures can be counted from the row."""
    return bool(row["chosen"]) and (bool(row["rejected"]) if row["rejected_ids"] is not None else row["rejected"] is None)


def _holds(row: Row, known: Known) -> Row:
    """The row with the status and the reason of its rejected side that hold."""
    named = known.rollouts.get(row["rejected_rollout"] or "")
    if named is None or row["rejected_ids"] is None:
        return row
    said = {"rejected_status": named[1].status}
    if row.get("rejected_reason") is not None:
        said["rejected_reason"] = named[1].judged["reason"]
    return {**row, **said}


def _problems(row: Row, known: Known, repair: Row | None, lacking: Sequence[str]) -> Iterator[Problem]:
    if repair is not None:
        yield from ((name, row[name], value) for name, value in repair.items() if name not in lacking and not alike(row[name], value))
        return
    if not _whole(row):
        yield "chosen, rejected", "a text", "none"
        return
    chosen, rejected = (_text(row[side]) for side in ("chosen", "rejected"))
    sides = [known.rollouts.get(row[f"{side}_rollout"] or "") for side in ("chosen", "rejected")]
    if _swapped(chosen, rejected, sides):
        yield "chosen and rejected", f"chosen {chosen!r}", "swapped: the rejected one is right, the chosen one wrong"
        return
    if row["chosen_rollout"] is None:
        yield from _reference_problems(row, chosen, known.examples.get(row["example_id"]), known)
    else:
        yield from _side_problems(row, "chosen", chosen, sides[0], known, right=True)
    parts = [row[name] is None for name in _REJECTED[:5]]
    if any(parts) and not all(parts):
        yield "rejected", "a whole side or none", "parts of it are missing"
    elif not any(parts):
        yield from _side_problems(row, "rejected", rejected, sides[1], known, right=False)
    yield from ((name, old, new) for name, old, new in _said(row, sides) if name in row and name not in lacking and old != new)


def _said(row: Row, sides: Sequence[Named]) -> Iterator[Problem]:
    """What a row says of its sides: (column, written, as it should be)."""
    chosen, rejected = sides
    yield "source", row["source"], _source(chosen)
    yield "rejected_source", row["rejected_source"], None if rejected is None else _model(rejected)
    if row["source"] != HISTORY or row.get("trust") is not None:  # rows out of production say neither
        reason = None if rejected is None else rejected[1].judged["reason"]
        yield "rejected_reason", row.get("rejected_reason"), reason
        yield "trust", row.get("trust"), together(side[1].written["trust"] for side in sides if side is not None)


def _source(chosen: Named) -> str:
    if chosen is None:
        return "reference"
    return "correction" if chosen[0]["turn"] else _model(chosen)


def _model(side: tuple[Row, Item]) -> str:
    return side[0]["model"] if side[0]["model"] in (MUTATIONS, HISTORY) else "model"


def _swapped(chosen: str | None, rejected: str | None, sides: Sequence[Named]) -> bool:
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
    if row["chosen_verdict"] is not None:
        yield "chosen_verdict", row["chosen_verdict"], None
    if example is not None and known.task is not None and row["prompt"] != known.task.prompt(example):
        yield "prompt", row["prompt"], known.task.prompt(example)


def _side_problems(row: Row, side: str, text: str | None, named: Named, known: Known, right: bool) -> Iterator[Problem]:
    """One side of a pair against the rollout and the verdict that it names."""
    if named is None:
        yield f"{side}_rollout", row[f"{side}_rollout"], "no such rollout"
        return
    rollout, item = named
    if rollout["example_id"] != row["example_id"]:
        yield f"{side}_rollout", row["example_id"], f"a rollout of {rollout['example_id']}"
    # In a round on references the query alone stands against the gold, as the verifier took it out of the answer; its tokens are its own.
    query_alone = row["chosen_rollout"] is None and (known.on_references is None or Path(item.file).stem in known.on_references)
    whole = not query_alone or (known.on_references is None and text == rollout["completion"])
    wanted = rollout["completion"] if whole else extract_sql(rollout["completion"])
    logged = rollout["model"] == HISTORY  # without token ids, which belong to a model
    if text != wanted:
        yield side, text, wanted
    elif not query_alone and not logged and not alike(row[f"{side}_ids"], rollout["completion_ids"]):
        yield f"{side}_ids", "other token ids", "those of the rollout"
    yield from _prompt_problems(row, rollout, logged, known)
    keys = (item.written["key"], item.found.key if item.found else "")
    if row[f"{side}_verdict"] not in keys:
        yield f"{side}_verdict", row[f"{side}_verdict"], keys[0]
    if side == "rejected" and row["rejected_status"] != item.status:
        yield "rejected_status", row["rejected_status"], item.status
    if item.score != float(right):
        yield f"{side}, verdict", "PASS" if right else "not PASS", item.status


def _prompt_problems(row: Row, rollout: Row, logged: bool, known: Known) -> Iterator[Problem]:
    example = known.examples.get(row["example_id"])
    worded = [known.task.prompt(example)] if logged and known.task is not None and example is not None else []
    if row["prompt"] not in (rollout["messages"], *worded):
        yield "prompt", row["prompt"], rollout["messages"]
    elif not logged and not alike(row["prompt_ids"], rollout["prompt_ids"]):
        yield "prompt_ids", "other token ids", "those of the rollout"


def _text(messages: list[Row] | None) -> str | None:
    return messages[-1]["content"] if messages else None
