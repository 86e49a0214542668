"""The sentence a manager reads, and the one word above it, from the ledger's totals and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefkit.evaluate.words import effect, interval_words, percent, points, split_words

Entry = Mapping[str, Any]


def headline(entries: Sequence[Entry]) -> dict[str, Any]:
    """The verdict over the whole training, with a sentence for the first split and one for each split.

    ``verdict`` is "improved" where at least one total gain has its interval above 0 and none has it below, "worse" the other way round,
    "mixed" where there are both, and "no change" where no interval excludes 0.

    Returns:
        ``verdict``, ``sentence``, and ``splits``: for each split its own ``verdict`` and ``sentence``.
    """
    totals = [entry for entry in entries if entry["step"] == "total"]
    if not totals:
        return {"verdict": "no change", "sentence": "One policy alone was evaluated, so there is no change to report.", "splits": {}}
    splits = {split: _split_headline(split, totals) for split in dict.fromkeys(entry["split"] for entry in totals)}
    verdict = _verdict(totals)
    first = next(iter(splits.values()))
    sentences = [first["sentence"]]
    if first["verdict"] != verdict:
        # The word above must be borne out by the sentence below it.
        sentences += [part["sentence"] for part in splits.values() if part is not first and part["verdict"] != "no change"]
    return {"verdict": verdict, "sentence": " ".join(sentences), "splits": splits}


def _split_headline(split: str, totals: Sequence[Entry]) -> dict[str, str]:
    here = {entry["measure"]: entry for entry in totals if entry["split"] == split}
    verdict = _verdict(list(here.values()))
    parts = []
    if (greedy := here.get("greedy")) and greedy["gain"]["mean"] is not None:
        parts.append(_change(greedy, "of first answers (greedy) are right"))
    if (samples := here.get("samples")) and samples["gain"]["mean"] is not None:
        parts.append(_change(samples, "of sampled answers"))
    if not parts:
        return {"verdict": verdict, "sentence": f"No {split_words(split)} could be compared."}
    n = max(entry["gain"]["n"] for entry in here.values())
    opening = {"improved": "Improved", "worse": "Worse", "mixed": "Mixed", "no change": "No change shown"}[verdict]
    if {effect(entry["gain"]) for entry in here.values()} <= {"same", "unknown"}:
        opening = "No change"
    return {"verdict": verdict, "sentence": f"{opening}: on {n} {split_words(split)}, {', and '.join(parts)}."}


def _change(entry: Entry, of_what: str) -> str:
    gain = entry["gain"]
    if effect(gain) == "same":
        return f"{percent(entry['after'])} {of_what}, before and after, with the same score on every question"
    shown = f"{percent(entry['after'])} {of_what} instead of {percent(entry['before'])}"
    figures = f"{points(gain['mean'])} points, 95\u00a0% interval {interval_words(gain)}"
    if effect(gain) == "nothing":
        return f"{shown} ({figures}, which contains 0: nothing shown)"
    return f"{shown} ({figures})"


def _verdict(totals: Sequence[Entry]) -> str:
    effects = {effect(entry["gain"]) for entry in totals}
    if {"gain", "loss"} <= effects:
        return "mixed"
    return "improved" if "gain" in effects else "worse" if "loss" in effects else "no change"
