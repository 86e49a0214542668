"""Questions that are nearly the same, found by the words they share, and what training must not share with held-out questions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from prefkit.tasks.base import Example
from prefkit.tasks.sql_text import query_forms, words

NEAR = 0.8
"""Shared words over all words (Jaccard) from which on two questions count as nearly the same."""


def near_duplicates(questions: Sequence[str], others: Sequence[str], least: float = NEAR) -> list[tuple[int, int, float]]:
    """(i, j, overlap) for each question i and other j that share at least `least` of their words, in order of i, then j.

    Two sets that overlap so much share one of their rarest words (prefix filter of Bayardo, Ma and Srikant, "Scaling up all pairs
    similarity search", 2007), so only questions that do are compared.
    """
    left, right = [frozenset(words(text)) for text in questions], [frozenset(words(text)) for text in others]
    frequency = Counter(word for group in (*left, *right) for word in group)
    index: defaultdict[str, list[int]] = defaultdict(list)
    for j, group in enumerate(right):
        for word in _rarest(group, frequency, least):
            index[word].append(j)
    found = []
    for i, group in enumerate(left):
        for j in sorted({j for word in _rarest(group, frequency, least) for j in index[word]}):
            share = len(group & right[j]) / len(group | right[j])
            if share >= least:
                found.append((i, j, share))
    return found


def _rarest(group: frozenset[str], frequency: Counter[str], least: float) -> list[str]:
    kept = len(group) - math.ceil(least * len(group) - 1e-9) + 1
    return sorted(group, key=lambda word: (frequency[word], word))[:kept]


class HeldOut:
    """What training must not share with held-out questions: a query form with its columns, and nearly all of the words."""

    def __init__(self, examples: Iterable[Example]) -> None:
        examples = list(examples)
        self._forms = {form for example in examples for gold in example.golds for form in query_forms(gold)}
        self._words = [frozenset(words(example.question)) for example in examples]

    def shares_form(self, golds: Iterable[str]) -> bool:
        """Whether one of the queries has the form of a held-out one."""
        return any(query_forms(gold) & self._forms for gold in golds)

    def shares_words(self, question: str) -> bool:
        """Whether it shares at least `NEAR` of its words with a held-out question."""
        asked = frozenset(words(question))
        return any(len(asked & other) >= NEAR * len(asked | other) for other in self._words)
