"""Verdicts that rest on execution and verdicts that are a model's opinion do not stand in one number unless someone asked for that."""

from __future__ import annotations

from collections.abc import Iterable

from prefkit.errors import DataError

EXECUTED = frozenset({"executed", "in_process"})
"""What was found by running something. "model" is the rest."""


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
