"""How figures and verdicts are put into words: one place, so that the page, the Markdown and the terminal say the same."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

NBSP = "\u00a0"
MINUS = "\u2212"

POLICY_WORDS = {
    "base": "Base model",
    "earlier": "Model of the earlier run",
    "references": "After the references",
    "own_pairs": "After its own pairs",
    "calibrated": "Final model",
}
STEP_WORDS = {
    "references": "Learning from references",
    "own_pairs": "Learning from its own right and wrong answers",
    "calibrated": "Online calibration",
    "total": "Everything together",
}
SPLIT_WORDS = {"test": "test questions", "unseen": "questions on databases that training never saw"}


def policy_words(policy: str) -> str:
    """The policy's name in plain words; an unknown one is shown as it is."""
    return POLICY_WORDS.get(policy, policy)


def step_words(step: str) -> str:
    """The training step's name in plain words; an unknown one is shown as it is."""
    return STEP_WORDS.get(step, step)


def split_words(split: str) -> str:
    """What the questions of a split are."""
    return SPLIT_WORDS.get(split, f"{split} questions")


def percent(share: float | None) -> str:
    """A share as per cent with one decimal: 0.517 is "51.7 %"."""
    return "–" if share is None else f"{_rounded(100 * share)}{NBSP}%"


def points(difference: float | None, signed: bool = True) -> str:
    """A difference of shares in percentage points, with its sign: 0.083 is "+8.3"."""
    if difference is None:
        return "–"
    text = _rounded(100 * difference)
    return f"+{text}" if signed and difference > 0 and text != "0.0" else text


def interval_words(figure: Mapping[str, Any], unit: str = "points") -> str:
    """The interval alone: "36.5 to 54.7"; per cent for scores, points for gains."""
    if unit == "points":
        return f"{points(figure['low'])} to {points(figure['high'])}"
    return f"{_rounded(100 * figure['low'])} to {percent(figure['high'])}"


def effect(gain: Mapping[str, Any]) -> str:
    """What a paired gain may be called: "gain", "loss", "same" (no question differs), "nothing" (the interval contains 0) or "unknown"."""
    if gain["mean"] is None:
        return "unknown"
    if gain["low"] == gain["high"] == 0:
        return "same"
    if gain["low"] > 0:
        return "gain"
    return "loss" if gain["high"] < 0 else "nothing"


def effect_words(gain: Mapping[str, Any]) -> str:
    """The effect in words that claim no more than the interval."""
    return {
        "gain": "gain",
        "loss": "loss",
        "same": "no change: every question scores the same",
        "nothing": "nothing shown: the interval contains 0",
        "unknown": "no questions to compare",
    }[effect(gain)]


def _rounded(value: float) -> str:
    # Half goes up, as people round: 31.25 is 31.3. The first rounding takes away what binary fractions add.
    exact = Decimal(repr(round(value, 9)))
    text = "0.0"
    for decimals in range(1, 5):
        text = str(exact.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))
        # A bound of 0.04 must not be printed as 0.0 beside words that say it is not 0.
        if exact == 0 or Decimal(text) != 0:
            break
    return text.replace("-", MINUS) if Decimal(text) != 0 else "0.0"
