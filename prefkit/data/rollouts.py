"""Rollouts: answers of one model to prompts, each verified, committed batch by batch so that a killed run asks nothing twice.

Batches are a function of the requests and of how many processes answer them, and each answer has a random stream of its own, so a resumed
stage ends with the same rows as one that was never interrupted.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from prefkit.data.partial import Partial
from prefkit.hashing import hash_value
from prefkit.tasks.base import Example, Message, Task
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.verdict import Verdict

Row = dict[str, Any]


class Pool(Protocol):
    """What answers prompts: `scale.workers.Workers`, or a stand-in. `processes`: how many batches it works on at once."""

    processes: int

    def map(self, job: str, batches: Iterable[dict]) -> Iterator[tuple[int, Any]]: ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """Who answers, and how: `k` samples, and the greedy answer where `greedy`. `branches`: answers decoded together; `model`: a ModelSpec
    as a dictionary; `adapter`: its folder or None."""

    model: dict[str, str]
    adapter: str | None
    k: int
    temperature: float
    max_new_tokens: int
    seed: int
    branches: int = 256
    greedy: bool = False

    @property
    def labels(self) -> list[str]:
        """What tells the answers to one prompt apart, in order: `greedy`, then the numbers of the samples."""
        return ["greedy"] * self.greedy + [str(k) for k in range(self.k)]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to answer. `name` is unique in its stage and seeds its answers."""

    name: str
    example: Example
    messages: list[Message]
    turn: int = 0
    parent: str | None = None


def first_turn(task: Task, examples: Iterable[Example]) -> list[Request]:
    """Requests for the first answer to each question."""
    return [Request(example.id, example, task.prompt(example)) for example in examples]


def collect(
    stage: str,
    requests: Sequence[Request],
    sampling: Sampling,
    task: Task,
    pool: Pool,
    scheduler: Scheduler,
    partial: Path,
    advance: Callable[[int, dict[str, float]], None],
    stream: str | None = None,
) -> tuple[list[Row], list[Row]]:
    """Rollout rows and verdict rows for all requests, in their order.

    `stream` names the random streams (default: the stage): two policies that are asked under one stream draw the same numbers, so that
    policies that are equal answer alike and those that differ are compared pair by pair.
    `partial` holds the batches that are done, for the next try; remove it once the rows are written. `advance(prompts, figures)` is told of
    each batch.
    """
    batches = _batches(requests, sampling.branches // len(sampling.labels), pool.processes)
    stream = stream or stage
    identity = hash_value([stage, stream, asdict(sampling), [[[one.name, one.messages] for one in batch] for batch in batches]])
    answers: dict[str, Row] = {}
    verdicts: dict[str, Row] = {}
    right = seen = 0
    for number, results in _answered(stream, batches, sampling, pool, partial, identity):
        for result in results:
            answers[result["name"]] = result
        checks = [
            task.check(request.example, answer["completion"], id=_id(stage, request, label))
            for request in batches[number]
            for label, answer in zip(sampling.labels, answers[request.name]["answers"], strict=True)
        ]
        for verdict in scheduler.verify(checks):
            verdicts[verdict.id] = verdict_row(verdict)
            seen += 1
            right += verdict.score == 1
        advance(len(results), {"right": round(right / max(seen, 1), 3)})
    rows = [
        rollout_row(stage, request, answers[request.name]["prompt_ids"], answer, label, sampling)
        for request in requests
        for label, answer in zip(sampling.labels, answers[request.name]["answers"], strict=True)
    ]
    return rows, [verdicts[row["id"]] for row in rows]


def _batches(requests: Sequence[Request], most: int, processes: int) -> list[list[Request]]:
    """The requests in batches of about one size, of at most `most` prompts (one, where that is 0), as many for each process.

    Questions on one database stand together, so that a batch computes its schema once.
    """
    order = sorted(requests, key=lambda request: request.example.database)
    rounds = math.ceil(len(order) / (max(1, most) * processes))
    count = min(len(order), rounds * processes)
    bounds = [len(order) * number // count for number in range(count + 1)] if count else []
    return [order[start:stop] for start, stop in pairwise(bounds)]


def _answered(
    stream: str, batches: list[list[Request]], sampling: Sampling, pool: Pool, partial: Path, identity: str
) -> Iterator[tuple[int, list[Row]]]:
    """(batch number, answers to its prompts): first the batches that are committed, then the others, each committed before it is told."""
    committed = Partial(partial, identity)
    yield from sorted(committed.done.items())
    missing = [number for number in range(len(batches)) if number not in committed.done]
    arguments = [
        {
            "model": sampling.model,
            "adapter": sampling.adapter,
            "prompts": [{"name": f"{stream}/{request.name}", "messages": request.messages} for request in batches[number]],
            "k": sampling.k,
            "greedy": sampling.greedy,
            "temperature": sampling.temperature,
            "max_new_tokens": sampling.max_new_tokens,
            "seed": sampling.seed,
        }
        for number in missing
    ]
    if not missing:
        return
    with committed:
        for index, results in pool.map("answer", arguments):
            results = [{**result, "name": result["name"].removeprefix(f"{stream}/")} for result in results]
            committed.add(missing[index], results)
            yield missing[index], results


def _id(stage: str, request: Request, label: str) -> str:
    return f"{stage}/{request.name}/{label}"


def rollout_row(stage: str, request: Request, prompt_ids: list[int], answer: Row, label: str, sampling: Sampling) -> Row:
    """The row of one answer in rollouts/<stage>.parquet. `label`: `greedy`, or the number of the sample."""
    example, greedy = request.example, label == "greedy"
    return {
        "id": _id(stage, request, label),
        "example_id": example.id,
        "split": example.split,
        "database": example.database,
        "level": example.level,
        "messages": request.messages,
        "prompt_ids": prompt_ids,
        "completion": answer["completion"],
        "completion_ids": answer["ids"],
        "logprobs": answer["logprobs"],
        "prompt_tokens": len(prompt_ids),
        "tokens": len(answer["ids"]),
        "ended": answer["ended"],
        "truncated": not answer["ended"] and len(answer["ids"]) >= sampling.max_new_tokens,
        "k": 0 if greedy else int(label),
        "temperature": 0.0 if greedy else float(sampling.temperature),
        "seed": sampling.seed,
        "model": sampling.model["name"],
        "turn": request.turn,
        "parent": request.parent,
    }


def verdict_row(verdict: Verdict) -> Row:
    """The row of one verdict in verdicts/<stage>.parquet."""
    row = verdict.to_dict()
    row["versions"] = json.dumps(row.get("versions") or {}, sort_keys=True)
    return row


def grouped(rows: Sequence[Row], verdicts: Sequence[Row]) -> dict[str, list[tuple[Row, Row]]]:
    """(rollout, verdict) by question, in order."""
    by_id = {verdict["id"]: verdict for verdict in verdicts}
    groups: dict[str, list[tuple[Row, Row]]] = defaultdict(list)
    for row in rows:
        groups[row["example_id"]].append((row, by_id[row["id"]]))
    return dict(groups)


def figures(rows: Sequence[Row], verdicts: Sequence[Row]) -> dict[str, Any]:
    """The counts a stage reports of its rollouts. `duplicates`: answers that share the verdict of one before; it was executed once."""
    groups = grouped(rows, verdicts)
    rights = [[verdict["score"] == 1 for _, verdict in group] for group in groups.values()]
    return {
        "prompts": len(groups),
        "answers": len(rows),
        "unique": len({(row["example_id"], row["completion"]) for row in rows}),
        "duplicates": len(verdicts) - len({verdict["key"] for verdict in verdicts}),
        "tokens": sum(len(row["completion_ids"]) for row in rows),
        "truncated": sum(not row["ended"] for row in rows),
        "right": sum(map(sum, rights)),
        "prompts_with_right": sum(map(any, rights)),
        "mixed": sum(any(group) and not all(group) for group in rights),
        "verifier_calls": len(verdicts),
        "not_judged": sum(verdict["score"] is None for verdict in verdicts),
    }
