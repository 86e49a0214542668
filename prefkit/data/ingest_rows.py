"""From judged lines to rows: examples, rollouts with verdicts, pairs and trajectories, written a page at a time.

A correction or a retry that passes over a logged answer that does not is a pair and a trajectory. Both sides are the queries alone: the
contrast is between queries, not between manners of speech. Rows have no token ids: they belong to no model yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from prefkit.data.ingest_judge import Known, example_of
from prefkit.data.ingest_store import Row, Store
from prefkit.files import replacing
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_text import skeleton

FILES = ("examples.parquet", "rollouts.parquet", "verdicts.parquet", "pairs.parquet", "trajectories.parquet")
SOURCE = "history"
BATCH = 1000

_LINES = "SELECT l.*, g.held, g.problem, g.gold, g.known FROM lines l JOIN groups g ON g.id = l.grp WHERE {after}"
_ROLLOUTS = """SELECT a.id, a.content, a.line, a.verdict, g.known, g.made, g.level, g.database, g.question, gold.content AS gold
               FROM answers a JOIN groups g ON g.id = a.grp LEFT JOIN answers gold ON gold.id = g.gold
               WHERE a.verdict IS NOT NULL AND g.held IS NULL AND {after}"""
_ATTEMPTS = """SELECT t.rowid, t.error, t.passed, g.known, g.made, g.level, g.database, g.question, g.gold AS gold_id, gold.content AS gold,
                      f.id AS failed, f.content AS failed_text, f.verdict AS failed_verdict, f.line AS failed_line,
                      r.id AS repair, r.content AS repair_text, r.verdict AS repair_verdict, r.line AS repair_line
               FROM attempts t JOIN answers f ON f.id = t.failed JOIN answers r ON r.id = t.repair JOIN groups g ON g.id = f.grp
               LEFT JOIN answers gold ON gold.id = g.gold WHERE {after}"""
_EXAMPLES = """SELECT g.id, g.known, g.made, g.level, g.database, g.question, a.content AS gold, a.id AS answer, a.line, a.verdict
               FROM groups g JOIN answers a ON a.id = g.gold WHERE {after}"""


def decide(store: Store, known: Known, advance: Callable[[], None]) -> None:
    """Find the attempts to mend an answer, and note of every line that makes no row why it does not."""
    for row in store.pages(_LINES, "l.number"):
        reason = _use(store, known, row)
        if reason:
            store.fault(row["number"], "refused", reason)
        advance()


def _use(store: Store, known: Known, row: Row) -> str:
    """Why a line makes no row; "" where it makes one."""
    if row["held"]:
        return row["held"]
    fault = ""
    if row["correction"] is not None:
        fault = store.all("SELECT fault FROM answers WHERE id = ?", row["correction"])[0]["fault"] or row["problem"] or ""
    reasons = [fault] if fault else []
    made = row["correction"] is not None and row["correction"] == row["gold"] and _first(store, row)
    if row["known"] or row["gold"]:
        for kind, failed, repair, error in _attempts(store, row, reasons):
            reason = _attempt(store, known, kind, failed, repair, error, row["number"])
            made = made or not reason
            reasons += [reason] if reason else []
    if made:
        return ""
    if row["spoiled"]:
        reasons.insert(0, f"the query in its {row['spoiled']} held something that was redacted")
    if not reasons:
        judged = row["known"] or row["gold"]
        reasons = ["judged, but there is no correction and no retry to learn from"] if judged else ["nothing to verify it by"]
    return reasons[0]


def _first(store: Store, row: Row) -> bool:
    """Whether this is the line that made the question's reference."""
    return store.count("SELECT MIN(number) FROM lines WHERE grp = ? AND correction = ?", row["grp"], row["gold"]) == row["number"]


def _attempts(store: Store, row: Row, reasons: list[str]) -> Iterator[tuple[str, int, int, str | None]]:
    """(kind, the answer that was mended, what mends it, the error that was shown) of one line."""
    if row["answer"] is None:
        return
    for kind in ("correction", "retry"):
        if row[kind] is not None and not (kind == "correction" and reasons):
            yield kind, row["answer"], row[kind], row["error"]
    if row["retry_of"] is not None:
        sql = "SELECT answer, error FROM lines WHERE id = ? AND grp = ? AND number <> ? AND answer IS NOT NULL ORDER BY number LIMIT 1"
        earlier = store.one(sql, row["retry_of"], row["grp"], row["number"])
        if earlier is None:
            reasons.append("retry_of names no other line with this question")
        else:
            yield "retry", earlier["answer"], row["answer"], earlier["error"]


def _attempt(store: Store, known: Known, kind: str, failed: int, repair: int, error: str | None, line: int) -> str:
    """Keep an attempt that the verdicts support; why not, where they do not. A retry that fails as well is kept as an open end."""
    first, second = (store.all("SELECT content, query, status, score FROM answers WHERE id = ?", id)[0] for id in (failed, repair))
    for row in (first, second):
        if row["score"] is None:
            return f"could not be judged: {row['status']}"
    if first["score"] == 1:
        return f"the answer was right already: the {kind} returns the same rows" if second["score"] == 1 else "the answer was right already"
    if not first["query"]:
        return "the answer holds no query to put the mended one over"
    if form := known.forms.get(skeleton(second["content"])):
        return f"held out: the {kind} has the query form of a {form} question"
    if second["score"] != 1 and kind == "correction":
        return "the correction disagrees with the task's reference"
    if store.one("SELECT 1 FROM attempts WHERE failed = ? AND repair = ?", failed, repair):
        return "repeated: an earlier line says the same"
    passed = second["score"] == 1
    if passed or second["query"]:
        store.do("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", failed, repair, kind, line, error, passed)
        return ""
    return "the retry holds no query"


class Rows:
    """Makes the rows of an ingested folder. `stem`: the beginning of every id."""

    def __init__(self, store: Store, known: Known, task: SqlTask, stem: str) -> None:
        self.store, self.known, self.task, self.stem = store, known, task, stem

    def write(self, folder: Path) -> dict[str, int]:
        """Write all files; returns how many rows each has."""
        sources: dict[str, Iterator[Mapping[str, Any]]] = {
            "examples": self.examples(),
            "rollouts": self.rollouts(),
            "verdicts": self.verdicts(),
            "pairs": self.pairs(),
            "trajectories": self.trajectories(),
        }
        return {name: write_parquet(folder / f"{name}.parquet", schemas()[name], rows) for name, rows in sources.items()}

    def _rollout(self, answer: int, line: int) -> str:
        return f"{self.stem}/{line}/{answer}"

    def examples(self) -> Iterator[Mapping[str, Any]]:
        """The new questions, each with its reference and the rollout and verdict that it came from."""
        for row in self.store.pages(_EXAMPLES, "g.id"):
            example = example_of(row, self.known)
            kept = {name: getattr(example, name) for name in ("id", "split", "database", "level", "question")}
            receipt = {"rollout": self._rollout(row["answer"], row["line"]), "verdict": json.loads(row["verdict"])["key"]}
            yield {**kept, "gold": list(example.golds), "line": row["line"], **receipt}

    def rollouts(self) -> Iterator[Mapping[str, Any]]:
        """Every different answer that was judged."""
        nothing = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "ended": True, "k": 0, "temperature": 0.0, "seed": 0}
        for row in self.store.pages(_ROLLOUTS, "a.id"):
            example = example_of(row, self.known)
            kept = {"example_id": example.id} | {name: getattr(example, name) for name in ("split", "database", "level")}
            text = {"messages": self.task.prompt(example), "completion": row["content"], "model": SOURCE, "turn": 0, "parent": None}
            yield {"id": self._rollout(row["id"], row["line"]), **kept, **nothing, **text}

    def verdicts(self) -> Iterator[Mapping[str, Any]]:
        """The verdict on each rollout, in the same order."""
        for row in self.store.pages(_ROLLOUTS, "a.id"):
            yield {**json.loads(row["verdict"]), "id": self._rollout(row["id"], row["line"])}

    def pairs(self) -> Iterator[Mapping[str, Any]]:
        """The mended query over the one that was wrong."""
        for row in self.store.pages(_ATTEMPTS, "t.rowid"):
            if not row["passed"]:
                continue
            example = example_of(row, self.known)
            sides = {side: [{"role": "assistant", "content": row[f"{part}_text"]}] for side, part in _SIDES}
            names = {f"{side}_rollout": self._rollout(row[part], row[f"{part}_line"]) for side, part in _SIDES}
            verdicts = {side: json.loads(row[f"{part}_verdict"]) for side, part in _SIDES}
            yield {
                "id": f"{names['chosen_rollout']}>{names['rejected_rollout']}",
                "example_id": example.id, "database": example.database, "level": example.level,
                "prompt": self.task.prompt(example), **sides,
                "prompt_ids": [], "chosen_ids": [], "rejected_ids": [], "source": SOURCE, **names,
                **{f"{side}_verdict": verdict["key"] for side, verdict in verdicts.items()},
                "rejected_status": verdicts["rejected"]["status"], "rejected_source": SOURCE,
            }  # fmt: skip

    def trajectories(self) -> Iterator[Mapping[str, Any]]:
        """A wrong answer, what was said of it, and what came next."""
        for row in self.store.pages(_ATTEMPTS, "t.rowid"):
            example, first = example_of(row, self.known), json.loads(row["failed_verdict"])
            feedback = row["error"] or first["feedback"] or first["reason"]
            turns = []
            for part, said, train in (("failed", feedback, False), ("repair", None, bool(row["passed"]))):
                verdict = json.loads(row[f"{part}_verdict"])
                receipt = {"rollout": self._rollout(row[part], row[f"{part}_line"]), "verdict": verdict["key"], "status": verdict["status"]}
                feedback_of_turn = said if part == "failed" else verdict["feedback"]
                turns.append({"content": row[f"{part}_text"], **receipt, "feedback": feedback_of_turn, "train": train})
            end = "open" if not row["passed"] else "reference" if row["repair"] == row["gold_id"] else "repaired"
            yield {
                "id": f"{turns[0]['rollout']}~{turns[1]['rollout']}",
                "example_id": example.id, "database": example.database, "level": example.level,
                "prompt": self.task.correction_prompt(self.task.prompt(example), row["failed_text"], feedback),
                "completion": [{"role": "assistant", "content": row["repair_text"]}], "turns": turns, "end": end,
            }  # fmt: skip


_SIDES = (("chosen", "repair"), ("rejected", "failed"))


def schemas() -> dict[str, Any]:
    """The columns of each file, with their types: the same whether a column has values or not."""
    import pyarrow as pa

    text, number, ids = pa.string(), pa.int64(), pa.list_(pa.int64())
    messages = pa.list_(pa.struct({"role": text, "content": text}))
    asked = {"example_id": text, "database": text, "level": number}
    turn = pa.struct({"content": text, "rollout": text, "verdict": text, "status": text, "feedback": text, "train": pa.bool_()})
    receipts = dict.fromkeys(("chosen_rollout", "rejected_rollout", "chosen_verdict", "rejected_verdict", "rejected_status"), text)
    return {
        "examples": pa.schema({"id": text, "split": text, "database": text, "level": number, "question": text, "gold": pa.list_(text),
                               "line": number, "rollout": text, "verdict": text}),
        "rollouts": pa.schema({"id": text, "example_id": text, "split": text, "database": text, "level": number, "messages": messages,
                               "prompt_ids": ids, "completion": text, "completion_ids": ids, "logprobs": pa.list_(pa.float64()),
                               "ended": pa.bool_(), "k": number, "temperature": pa.float64(), "seed": number, "model": text,
                               "turn": number, "parent": text}),
        "verdicts": pa.schema({"id": text, "status": text, "score": pa.float64(), "reason": text, "feedback": text, "trust": text,
                               "tier": text, "cpu_s": pa.float64(), "wall_s": pa.float64(), "peak_mem": number, "cached": pa.bool_(),
                               "key": text, "versions": text}),
        "pairs": pa.schema({"id": text, **asked, "prompt": messages, "chosen": messages, "rejected": messages, "prompt_ids": ids,
                            "chosen_ids": ids, "rejected_ids": ids, "source": text, **receipts, "rejected_source": text}),
        "trajectories": pa.schema({"id": text, **asked, "prompt": messages, "completion": messages, "turns": pa.list_(turn), "end": text}),
    }  # fmt: skip


def write_parquet(path: Path, schema: Any, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows in batches, whole or not at all. Returns how many there were."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    source, count = iter(rows), 0
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        while batch := list(islice(source, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count
