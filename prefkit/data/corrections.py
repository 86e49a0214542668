"""One-turn corrections: a wrong answer, what the verifier said of it (never the gold), and the model's repaired answer.

A trajectory keeps every turn with its verdict. It ends "repaired" (the second answer passed), "reference" (the gold closes it, where
references may be used), or "open". The control is the same model's fresh answer to the same question without feedback: repair is worth
something only where it beats another try.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefkit.data.pairs import correction_pair
from prefkit.data.rollouts import Request, grouped
from prefkit.tasks.base import Example

Row = dict[str, Any]


def correction_requests(task, examples: Sequence[Example], rollouts: Sequence[Row], verdicts: Sequence[Row]) -> list[Request]:
    """One second turn for each question that has a wrong answer with feedback: to the wrong answer the model gave most often."""
    groups = grouped(rollouts, verdicts)
    requests = []
    for example in examples:
        wrong = [
            (row, verdict) for row, verdict in groups.get(example.id, []) if verdict["score"] == 0 and verdict["feedback"] and row["ended"]
        ]
        if not wrong:
            continue
        texts = [row["completion"] for row, _ in wrong]
        row, verdict = max(wrong, key=lambda pair: (texts.count(pair[0]["completion"]), -pair[0]["k"]))
        messages = task.correction_prompt(example, row["completion"], verdict["feedback"])
        requests.append(Request(f"{example.id}/turn-1", example, messages, turn=1, parent=row["id"]))
    return requests


def trajectories(
    examples: Sequence[Example],
    first: tuple[Sequence[Row], Sequence[Row]],
    second: tuple[Sequence[Row], Sequence[Row]],
    use_references: bool,
) -> tuple[list[Row], list[Row], Row]:
    """Trajectory rows, pairs of repairs (right over wrong second turns), and counts.

    Args: first, second: rollouts and verdicts of each turn; use_references: whether a gold may close a trajectory.
    """
    by_id = {example.id: example for example in examples}
    parents = {row["id"]: (row, verdict) for group in grouped(*first).values() for row, verdict in group}
    first_groups = grouped(*first)
    rows, pairs = [], []
    repaired = tries = fresh_right = fresh = 0
    for example_id, group in grouped(*second).items():
        example = by_id[example_id]
        failed, failure = parents[group[0][0]["parent"]]
        right = next((pair for pair in group if pair[1]["score"] == 1 and pair[0]["ended"]), None)
        wrong = next((pair for pair in group if pair[1]["score"] == 0 and pair[0]["ended"]), None)
        others = [
            verdict["score"] == 1 for row, verdict in first_groups[example_id] if row["id"] != failed["id"] and verdict["score"] is not None
        ]
        tries += len(group)
        repaired += sum(verdict["score"] == 1 for _, verdict in group)
        fresh += len(others)
        fresh_right += sum(others)
        if right and wrong:
            pairs.append(correction_pair(example, right, wrong))
        rows.append(_trajectory(example, (failed, failure), right or group[0], bool(right), use_references))
    counts = {
        "trajectories": len(rows),
        "repair_tries": tries,
        "repaired": repaired,
        "repair_rate": round(repaired / tries, 4) if tries else None,
        "fresh_rate": round(fresh_right / fresh, 4) if fresh else None,
        "correction_pairs": len(pairs),
    }
    return rows, pairs, counts


def _trajectory(example: Example, failed: tuple[Row, Row], last: tuple[Row, Row], passed: bool, use_references: bool) -> Row:
    turns = [
        {
            "content": row["completion"],
            "rollout": row["id"],
            "verdict": verdict["key"],
            "status": verdict["status"],
            "feedback": verdict["feedback"],
            "train": False,
        }
        for row, verdict in (failed, last)
    ]
    end = "repaired" if passed else "reference" if use_references else "open"
    turns[1]["train"] = passed
    if end == "reference":
        turns[1] = {"content": example.golds[0], "rollout": None, "verdict": None, "status": "PASS", "feedback": None, "train": True}
    return {
        "id": f"{failed[0]['id']}~{last[0]['id']}",
        "example_id": example.id,
        "database": example.database,
        "level": example.level,
        "prompt": last[0]["messages"],
        "completion": [{"role": "assistant", "content": turns[1]["content"]}],
        "turns": turns,
        "end": end,
    }
