"""Whether feedback helped: repair rates by failure kind beside the two controls, for the page and the Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefkit.evaluate.repairs import ALL, repairs
from prefkit.evaluate.words import effect_words, interval_words, percent, points, policy_words, split_words
from prefkit.report.source import Source


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One kind of failure: the share of its questions that were repaired, and that as many fresh answers solved."""

    kind: str
    questions: int
    repaired: str
    fresh: str
    gain: str


@dataclass(frozen=True, slots=True)
class Repairs:
    """The corrections of one round. first: what the models answer right at once, before and after the training on them."""

    title: str
    about: str
    rows: list[RepairRow]
    first: str


def repair_tables(source: Source) -> list[Repairs]:
    """One for each round whose corrections left something to count."""
    found = []
    for number, rows in source.trajectories.items():
        counted = repairs(rows)
        if not counted["rows"]:
            continue
        turns, tries = counted["turns"], counted["tries"]
        left_out = f" {counted['not_judged']} more could not be judged." if counted["not_judged"] else ""
        about = (
            f"Questions that the model had answered wrong: those that it solved with the verifier's feedback ({_count(tries, 'answer')} in "
            f"{_count(turns, 'turn')} at most), and those that {_count(tries, 'fresh answer')} to the bare question solved.{left_out}"
        )
        found.append(Repairs(f"Corrections, round {number}", about, [_row(row) for row in counted["rows"]], _first(source)))
    return found


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _row(row: Mapping[str, Any]) -> RepairRow:
    gain = row["gain"]
    words = f"{points(gain['mean'])} ({interval_words(gain)}): {effect_words(gain)}"
    kind = "All questions" if row["kind"] == ALL else row["kind"]
    return RepairRow(kind, row["questions"], _share(row["repaired"]), _share(row["fresh"]), words)


def _share(figure: Mapping[str, Any]) -> str:
    return "–" if figure["mean"] is None else f"{percent(figure['mean'])} ({interval_words(figure, 'percent')})"


def _first(source: Source) -> str:
    """What a later stage measured of single answers without feedback, on questions that no training saw."""
    split = source.splits[0]
    scores = source.evaluation["scores"][split]
    shown = [f"{policy_words(policy).lower()} {_share(scores[policy]['samples'])}" for policy in source.policies if policy in scores]
    return f"First attempts, sampled, on the {split_words(split)}: {'; '.join(shown)}."
