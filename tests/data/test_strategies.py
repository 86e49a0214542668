"""Strategies: which right answer meets which wrong one, by an independent slow account of each, and bounded work."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from prefkit.data.strategies import MOST_SIDES, STRATEGIES, matched, not_compared


@dataclass(frozen=True)
class Side:
    text: str
    logprob: float = 0.0


def draw() -> random.Random:
    return random.Random("seed")


sides = st.lists(st.builds(Side, st.text("abc", min_size=1, max_size=5), st.sampled_from([-3.0, -2.0, -1.0])), max_size=7,
                 unique_by=lambda side: side.text)  # fmt: skip


def slow(right: list[Side], wrong: list[Side], strategy: str, most: int) -> list[tuple[Side, Side]]:
    """The rule as it is told: order all pairs, then take again and again the first of those whose sides were used least."""
    left = [(one, other) for one in right for other in wrong]
    if strategy == "nearest":
        left.sort(key=lambda pair: Levenshtein.distance(pair[0].text, pair[1].text))
    if strategy == "max_margin":
        left.sort(key=lambda pair: pair[0].logprob - pair[1].logprob)
    if strategy == "random":
        draw().shuffle(left)
    taken: list[tuple[Side, Side]] = []
    while left and len(taken) < most:
        used = Counter(side for pair in taken for side in pair)
        pair = min(left, key=lambda pair: used[pair[0]] + used[pair[1]])
        left.remove(pair)
        taken.append(pair)
    return taken


@settings(deadline=None)
@given(right=sides, wrong=sides, strategy=st.sampled_from(STRATEGIES), most=st.integers(1, 9))
def test_every_strategy_does_what_its_table_says(right: list[Side], wrong: list[Side], strategy: str, most: int) -> None:
    wrong = [side for side in wrong if side.text not in {other.text for other in right}]
    assert matched(right, wrong, strategy, most, draw()) == slow(right, wrong, strategy, most)


def test_the_first_pair_of_each_strategy() -> None:
    right = [Side("SELECT a", -2.0), Side("SELECT b FROM t", -9.0)]
    wrong = [Side("SELECT", -5.0), Side("SELECT c FROM t", -7.0), Side("nothing at all", -1.0)]
    first = {strategy: matched(right, wrong, strategy, 1, draw())[0] for strategy in STRATEGIES}
    assert first["max_margin"] == (right[1], wrong[2])
    assert first["nearest"] == (right[1], wrong[1])
    assert first["all_capped"] == (right[0], wrong[0])
    assert len({matched(right, wrong, "random", 1, random.Random(seed))[0] for seed in range(50)}) == 6


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_very_many_answers_only_so_many_are_compared(strategy: str) -> None:
    right = [Side(f"SELECT {number}", -float(number % 500)) for number in range(3000)]
    wrong = [Side(f"SELECT x{number}", -float(number % 500)) for number in range(3000)]
    pairs = matched(right, wrong, strategy, 100, draw())
    assert len(pairs) == 100
    assert len({side for pair in pairs for side in pair}) <= 2 * MOST_SIDES
    assert not_compared(right, wrong) == 2 * (3000 - MOST_SIDES)
    assert not_compared(right[:MOST_SIDES], wrong[:3]) == 0
    if strategy == "max_margin":
        assert pairs[0][0].logprob == -499 and pairs[0][1].logprob == 0
    if strategy == "all_capped":
        assert pairs[0] == (right[0], wrong[0])
