"""What feedback was worth: the questions that were repaired, by the failure they began with, beside those that as many fresh answers of the
same model solved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prefkit.evaluate.failures import failure_kind
from prefkit.statistics import mcnemar_p, paired_interval, wilson

ALL = "all"
Row = Mapping[str, Any]


def repairs(trajectories: Sequence[Row]) -> dict[str, Any]:
    """The repair rates of one round, with 95 % intervals.

    The unit is the question: it counts as repaired where any of its tries passed, and as solved afresh where any of as many fresh answers
    did. Both are asked of the same questions, so the difference is paired. A question of which either side was never judged is left out
    and counted.

    Args:
        trajectories: rows of ``trajectories/round-N.parquet``.

    Returns:
        ``rows``: one for all questions and one for each kind of failure, the most frequent first, each with ``kind``, ``questions``,
        ``repaired``, ``fresh`` (shares with intervals) and ``gain`` (repaired less fresh, with ``p``); ``not_judged``; ``turns`` and
        ``tries``, the most that a question had.
    """
    judged = [row for row in trajectories if _scores(_tries(row)) and _scores(row["fresh"])]
    kinds = Counter(_kind(row) for row in judged)
    ordered = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    groups = {ALL: judged, **{kind: [row for row in judged if _kind(row) == kind] for kind in ordered}} if judged else {}
    return {
        "rows": [{"kind": kind, **_compared(rows)} for kind, rows in groups.items()],
        "not_judged": len(trajectories) - len(judged),
        "turns": max((len(row["turns"]) - 1 for row in judged), default=0),
        "tries": max((len(row["fresh"]) for row in judged), default=0),
    }


def _compared(rows: Sequence[Row]) -> dict[str, Any]:
    repaired, fresh = [_solved(_tries(row)) for row in rows], [_solved(row["fresh"]) for row in rows]
    won = sum(one > other for one, other in zip(repaired, fresh, strict=True))
    lost = sum(one < other for one, other in zip(repaired, fresh, strict=True))
    return {
        "questions": len(rows),
        "repaired": wilson(sum(repaired), len(rows)).to_dict(),
        "fresh": wilson(sum(fresh), len(rows)).to_dict(),
        "gain": {**paired_interval(fresh, repaired).to_dict(), "p": mcnemar_p(won, lost)},
    }


def _kind(row: Row) -> str:
    return failure_kind(row["turns"][0]) or "none"


def _tries(row: Row) -> list[Row]:
    return [one for turn in row["turns"] for one in turn["tries"] or []]


def _scores(answers: Sequence[Row]) -> list[float]:
    return [one["score"] for one in answers if one["score"] is not None]


def _solved(answers: Sequence[Row]) -> int:
    return int(any(score == 1 for score in _scores(answers)))
