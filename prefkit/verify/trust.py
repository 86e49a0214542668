"""Verdicts that rest on execution and verdicts that are a model's opinion do not stand in one number unless someone asked for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from prefkit.errors import DataError

EXECUTED = frozenset({"executed", "in_process"})
"""What was found by running something. "model" is the rest."""


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many scored verdicts (or answers with their verdict) there are of each trust. A row without the column was executed."""
    found = Counter(str(row.get("trust") or "executed") for row in rows if row["score"] is not None and row["score"] == row["score"])
    return dict(sorted(found.items()))


def together(trusts: Iterable[str]) -> str | None:
    """The trust of what rests on all of these: the least of them, "mixed" for executed ones beside opinions, None for nothing."""
    kinds = set(trusts)
    if "model" in kinds:
        return "mixed" if kinds & EXECUTED else "model"
    return next((kind for kind in ("in_process", "executed") if kind in kinds), None)


def require_one_kind(trusts: Iterable[str], mixed: bool, where: str) -> None:
    """Raise DataError where verdicts of both kinds come together and the recipe does not say `mixed`.

    trusts: `Verdict.trust` of all that go into one pair, reward, score or figure. where: what that is, for the message: "the rewards of
    calibration". To be called wherever verdicts are put together.
    """
    kinds = set(trusts)
    if mixed or "model" not in kinds or not kinds & EXECUTED:
        return
    raise DataError(
        f"{where}: executed verdicts and a model's opinions (the judge's) would be mixed. Leave one of them out, or, to mix them all the "
        "same, say `judge.mix: true` in the recipe; the report then says so."
    )
