"""Which right answer of a prompt meets which wrong one.

| strategy   | order in which pairs are taken                                                                                      |
|------------|---------------------------------------------------------------------------------------------------------------------|
| max_margin | the right answer that the model believes least in (sum of log-probabilities) against the wrong one it believes most |
| nearest    | the smallest edit distance (Levenshtein, in characters) between right and wrong                                     |
| random     | drawn with the seed and the question's name                                                                         |
| all_capped | right answers by how often the model gave them, then wrong ones by the same                                         |

Whatever the order, a pair that says something new comes first: one whose sides stand in fewer pairs already.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

STRATEGIES = ("max_margin", "nearest", "random", "all_capped")
MOST_SIDES = 64
"""Answers of each kind that are compared; so the work for a prompt is bounded however many answers it has."""


class Answer(Protocol):
    """One answer: its text and the sum of its tokens' log-probabilities."""

    @property
    def text(self) -> str: ...

    @property
    def logprob(self) -> float: ...


A = TypeVar("A", bound=Answer)


def matched(right: Sequence[A], wrong: Sequence[A], strategy: str, most: int, draw: random.Random) -> list[tuple[A, A]]:
    """At most `most` pairs. Answers are given the most frequent first, each text once. `draw` decides where the strategy is random."""
    if not right or not wrong:
        return []
    right = _compared(right, strategy, -1, draw)
    wrong = _compared(wrong, strategy, 1, draw)
    every = [(chosen, rejected) for chosen in right for rejected in wrong]
    if strategy == "random":
        draw.shuffle(every)
    elif strategy == "nearest":
        every = [every[place] for place in _by_distance(right, wrong)]
    elif strategy == "max_margin":
        every.sort(key=lambda pair: pair[0].logprob - pair[1].logprob)
    taken: list[tuple[A, A]] = []
    used: Counter[str] = Counter()
    while every and len(taken) < most:
        index = _least_used(every, used)
        chosen, rejected = every.pop(index)
        used[chosen.text] += 1
        used[rejected.text] += 1
        taken.append((chosen, rejected))
    return taken


def not_compared(right: Sequence[Answer], wrong: Sequence[Answer]) -> int:
    """How many answers `matched` leaves out of the comparison."""
    return sum(max(0, len(sides) - MOST_SIDES) for sides in (right, wrong))


def _compared(sides: Sequence[A], strategy: str, sign: int, draw: random.Random) -> list[A]:
    """The answers that take part: those that the strategy would reach first where it can be said of one answer alone."""
    if len(sides) <= MOST_SIDES:
        return list(sides)
    if strategy == "random":
        return draw.sample(list(sides), MOST_SIDES)
    if strategy == "max_margin":
        return sorted(sides, key=lambda side: -sign * side.logprob)[:MOST_SIDES]
    return list(sides[:MOST_SIDES])


def _least_used(every: Sequence[tuple[A, A]], used: Counter[str]) -> int:
    """The first pair whose sides were used least."""
    least, found = None, 0
    for index, (chosen, rejected) in enumerate(every):
        times = used[chosen.text] + used[rejected.text]
        if least is None or times < least:
            least, found = times, index
            if not times:
                break
    return found


def _by_distance(right: Sequence[Answer], wrong: Sequence[Answer]) -> list[int]:
    """Places in the list of all pairs (each right one with every wrong one), the nearest first, equal ones in their order."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    distances = cdist([side.text for side in right], [side.text for side in wrong], scorer=Levenshtein.distance)
    return distances.ravel().argsort(kind="stable").tolist()
