"""Questions with the answers before and after training, drawn at random with the recipe's seed: nobody picked them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefkit.evaluate.failures import failure_kind
from prefkit.report.source import Source
from prefkit.report.text import shorten

LONGEST = 900


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer as shown: ``text`` is the SQL that was executed, or where there was none the whole answer."""

    text: str
    is_sql: bool
    right: bool
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its reference and the two answers."""

    number: int
    split: str
    database: str
    level: str
    question: str
    gold: str
    before: Shown
    after: Shown


def examples(source: Source, count: int = 10) -> tuple[list[Example], int]:
    """``count`` questions that the first and the last policy both answered, and how many there were to draw from."""
    first, last = source.policies[0], source.policies[-1]
    greedy = {(a["policy"], a["split"], a["example_id"]): a for a in source.answers if a["kind"] == "greedy"}
    both = sorted((s, e) for policy, s, e in greedy if policy == first and (last, s, e) in greedy)
    drawn = random.Random(source.seed).sample(both, min(count, len(both)))
    found = []
    for place, (split, example_id) in enumerate(drawn, start=1):
        before, after = greedy[first, split, example_id], greedy[last, split, example_id]
        found.append(
            Example(
                place,
                str(split),
                str(after["database"]),
                str(after["level"]),
                shorten(str(after["question"]), LONGEST),
                shorten(str(after["gold"]), LONGEST),
                _shown(before),
                _shown(after),
            )
        )
    return found, len(both)


def _shown(answer: Mapping[str, Any]) -> Shown:
    sql, completion = answer.get("sql"), str(answer.get("completion") or "")
    kind = failure_kind(answer)
    text = str(sql) if sql else completion
    return Shown(shorten(text.strip(), LONGEST), bool(sql), kind is None, kind or "right", shorten(str(answer.get("reason") or ""), 300))
