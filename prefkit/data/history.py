"""An ingested folder as a run takes it: its questions as a split of the task, its pairs as training rows.

Nothing of it may be held out: its questions are looked for among the held-out ones of the run's own task again, because a task may have
changed since. A verdict holds for the databases that it was made on, so these must be the same files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefkit.data.ingest_judge import Known
from prefkit.data.ingest_report import KIND, VERSION
from prefkit.data.ingest_rows import FILES
from prefkit.errors import DataError
from prefkit.hashing import hash_bytes, hash_value
from prefkit.runfolder import RunFolder
from prefkit.tasks.base import Example
from prefkit.tasks.names import HELD_OUT, INGESTED
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_text import skeleton

Row = dict[str, Any]
AGAIN = "run `prefkit ingest` again with this task"


@dataclass(frozen=True)
class Ingested:
    """A folder that `prefkit ingest` wrote. `report`: its report.json."""

    folder: RunFolder
    report: Row

    @classmethod
    def read(cls, path: str | Path) -> Ingested:
        """DataError where that is no such folder, or one of its files was changed."""
        folder = RunFolder(path)
        try:
            report = json.loads(folder.file("report.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DataError(
                f"{path} is no ingested folder: it has no report.json. `prefkit ingest LOGS.jsonl --task T` makes one."
            ) from error
        except ValueError as error:
            raise DataError(f"{path}/report.json cannot be read ({error}): run `prefkit ingest` again.") from error
        if not isinstance(report, dict) or (report.get("kind"), report.get("version")) != (KIND, VERSION):
            raise DataError(f"{path}/report.json is not of an ingested folder of this version of prefkit: run `prefkit ingest` again.")
        for name in FILES:
            if not folder.file(name).is_file() or hash_bytes(folder.file(name)) != report["files"].get(name):
                raise DataError(f"{path}/{name} is not as `prefkit ingest` wrote it: run it again, and change none of its files by hand.")
        return cls(folder, report)

    @property
    def sha256(self) -> str:
        """Stands for the content of all its files."""
        return hash_value(self.report["files"])

    def rows(self, name: str) -> list[Row]:
        """The rows of one file: examples, rollouts, verdicts, pairs or trajectories."""
        return self.folder.read_rows(f"{name}.parquet")

    def added_to(self, task: SqlTask) -> SqlTask:
        """The task with the folder's questions as the split `ingested`. DataError where they are not of this task, or where it holds them
        out."""
        path = self.folder.path
        for name, files in self.report["task"]["databases"].items():
            if name not in task.databases:
                raise DataError(f"{path} was made with the database {name}, which this task does not have: {', '.join(task.databases)}.")
            if [hash_bytes(file) for file in task.databases[name]] != files:
                raise DataError(f"{path} was made with other rows of the database {name}, so its verdicts may not hold any more: {AGAIN}.")
        examples = [_example(row) for row in self.rows("examples")]
        leaks = held_out_among(examples, Known(task))
        if leaks:
            raise DataError(f"{path} has {len(leaks)} questions that this task holds out (first: {leaks[0]}): {AGAIN}.")
        trained = {example.id for split in task.splits if split not in HELD_OUT for example in task.load(split)}
        trained.update(example.id for example in examples)
        strange = sorted({row["example_id"] for name in ("pairs", "trajectories") for row in self.rows(name)} - trained)
        if strange:
            raise DataError(f"{path} has rows for {len(strange)} questions that are not in training here (first: {strange[0]}): {AGAIN}.")
        known = {example.id for example in task.load(INGESTED)} if INGESTED in task.splits else set()
        counts = self.report["made"]
        note = f"{len(examples)} questions and {counts['pairs']} pairs out of the log {self.report['log']['name']} train too ({path})"
        return task.with_ingested([example for example in examples if example.id not in known], note)


def held_out_among(examples: Sequence[Example], known: Known) -> list[str]:
    """Those of the examples that are a held-out question, by their id, their words or their query form, each with the reason."""
    found = []
    for example in examples:
        same, named = known.find(example.database, example.question), known.examples.get(example.id)
        form = next((known.forms[skeleton(gold)] for gold in example.golds if skeleton(gold) in known.forms), None)
        held = next((one.split for one in (same, named) if one is not None and one.split in HELD_OUT), form)
        if held:
            found.append(f"{example.id}, in {held}: {example.question[:80]}")
    return found


def _example(row: Row) -> Example:
    gold = row["gold"][0] if len(row["gold"]) == 1 else tuple(row["gold"])
    return Example(row["id"], INGESTED, row["database"], row["level"], row["question"], gold)


def trainable(pairs: Sequence[Row], tokenize: Callable[[list[Row]], list[Row]], most_tokens: int) -> tuple[list[Row], Row]:
    """The pairs with token ids, and counts of what was dropped: rows over `most_tokens`, and answers with an end token inside."""
    asked = [{"messages": row["prompt"], "answers": [row[side][0]["content"] for side in ("chosen", "rejected")]} for row in pairs]
    kept: list[Row] = []
    counts = {"pairs": 0, "dropped_long": 0, "dropped_end_token": 0}
    for row, ids in zip(pairs, tokenize(asked) if asked else [], strict=True):
        answers = ids["answer_ids"]
        if len(ids["prompt_ids"]) + max(map(len, answers)) > most_tokens:
            counts["dropped_long"] += 1
        elif any(answer.count(answer[-1]) > 1 for answer in answers):
            counts["dropped_end_token"] += 1
        else:
            kept.append({**row, "prompt_ids": ids["prompt_ids"], "chosen_ids": answers[0], "rejected_ids": answers[1]})
            counts["pairs"] += 1
    return kept, counts


def round_of(rounds: Sequence[Any]) -> int | None:
    """The place of the round that trains on what is ingested: the first on references; None where there is none."""
    return next((index for index, turn in enumerate(rounds) if turn.source == "references"), None)


def joined(rows: Sequence[Row], counts: Row, history: Sequence[Row]) -> tuple[list[Row], Row]:
    """The rows of a round and the ones out of production, which take the place of rows of the same question without a rejected side."""
    if not history:
        return list(rows), counts
    told = {(row["example_id"], row["chosen"][0]["content"]) for row in history}
    kept = [row for row in rows if row["rejected"] is not None or (row["example_id"], row["chosen"][0]["content"]) not in told]
    both = [*kept, *history]
    more = {"rows": len(both), "pairs": sum(row["rejected"] is not None for row in both), "history": len(history)}
    return both, {**counts, **more, "dropped_told_twice": len(rows) - len(kept)}
