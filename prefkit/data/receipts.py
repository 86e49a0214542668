"""Receipts: what each row came from, in the row itself, so that `prefkit audit` can run it again and see what was changed.

| row                 | names                                                                                             |
|---------------------|---------------------------------------------------------------------------------------------------|
| rollout             | `model`, `adapter`, `template`, `seed`, `parent`, and a `content_hash` of its own content         |
| verdict             | `key` (answer, gold, data, limits, rules), `versions` of the verifier, `data_hash`                |
| pair, trajectory    | its rollouts and verdicts, `model`, `template`, `versions`, `data_hash`                           |
| evaluation answer   | `key`, `model`, `adapter`, `template`, `versions`, `data_hash`, `content_hash`                    |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prefkit.files import WEIGHTS
from prefkit.hashing import hash_bytes, hash_value
from prefkit.tasks.base import Example, Task
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
ROLLOUT = (
    "id", "example_id", "messages", "prompt_ids", "completion", "completion_ids", "ended", "k", "temperature", "seed", "model", "adapter",
    "template", "turn", "parent",
)  # fmt: skip
"""The columns of a rollout that its `content_hash` covers."""
ANSWER = ("policy", "split", "example_id", "kind", "k", "completion", "sql", "tokens", "ended", "model", "adapter", "template")
"""The columns of an evaluation answer that its `content_hash` covers."""


def content_hash(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """SHA-256 over these columns of a row; one that the row lacks counts as None."""
    return hash_value({name: row.get(name) for name in columns})


def sealed(rows: Iterable[Row], columns: Iterable[str], **named: Any) -> list[Row]:
    """The rows with the columns `named` put in where they are missing, and with their content hash anew."""
    columns = tuple(columns)
    result = []
    for row in rows:
        row = {**named, **row}
        result.append({**row, "content_hash": content_hash(row, columns)})
    return result


def adapter_hash(adapter: str | Path | None) -> str | None:
    """SHA-256 of an adapter's weights; None for the base model alone, and for a folder without weights."""
    weights = Path(adapter) / WEIGHTS if adapter else None
    return hash_bytes(weights) if weights is not None and weights.is_file() else None


def training_rows(rows: Iterable[Row], task: Task, scheduler: Scheduler, model: str) -> list[Row]:
    """Pairs or trajectories with the model, the template, the verifier's versions and the hash of the data that they rest on."""
    known: dict[str, Row] = {}
    result = []
    for row in rows:
        database = row["database"]
        if database not in known:
            check = task.check(Example("", "train", database, 0, "", ""), "")
            verifier = scheduler.verifier_of(check)
            versions = json.dumps(verifier.versions, sort_keys=True)
            known[database] = {"versions": versions, "data_hash": verifier.data_hash(check)}
        result.append({**row, "model": model, "template": task.template, **known[database]})
    return result
