"""pass@k against all choices of k answers, and the expected share of groups with signal against simulated models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.data.pass_rates import pass_at, signal_share
from prefkit.statistics import pass_at_k


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_choices_of_k_answers_with_a_right_one(case: tuple[int, int, int]) -> None:
    answers, right, k = case
    choices = list(itertools.combinations([True] * right + [False] * (answers - right), k))
    assert pass_at_k(answers, right, k) == pytest.approx(sum(map(any, choices)) / len(choices), abs=1e-12)


def test_pass_at_k_gives_the_values_of_the_formula_for_many_answers() -> None:
    # 1 - C(190, 10) / C(200, 10), as the product of Chen et al. gives it: 1 - prod(1 - 10 / i for i in 191 … 200).
    assert pass_at_k(200, 10, 10) == pytest.approx(1 - np.prod(1 - 10 / np.arange(191, 201)))
    assert (pass_at_k(5, 0, 5), pass_at_k(5, 1, 5), pass_at_k(5, 5, 1)) == (0, 1, 1)
    assert 0 < pass_at_k(100_000, 1, 10) < 1.1e-4


@pytest.mark.parametrize(("answers", "right", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5)])
def test_what_cannot_be_estimated_is_refused(answers: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} cannot be had"):
        pass_at_k(answers, right, k)


def test_pass_at_k_is_without_bias() -> None:
    generator = np.random.default_rng(3)
    rate, answers, k = 0.15, 8, 4
    estimates = [pass_at_k(answers, int(right), k) for right in generator.binomial(answers, rate, 20_000)]
    assert np.mean(estimates) == pytest.approx(1 - (1 - rate) ** k, abs=0.006)


def test_the_question_is_the_unit_of_the_interval() -> None:
    few, many = pass_at([(8, 4)] * 4 + [(8, 0)] * 4, 1), pass_at([(8, 4)] * 40 + [(8, 0)] * 40, 1)
    assert few.mean == many.mean == 0.25
    assert few.n == 8 and few.high - few.low > 2 * (many.high - many.low)
    # Questions with too few answers for k say nothing of pass@k.
    assert pass_at([(2, 2), (8, 0)], 4).n == 1
    assert pass_at([], 1).mean is None


def population(a: float, b: float, questions: int, answers: int, seed: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Right answers of a model whose pass rates are drawn from Beta(a, b), and a hundred thousand further rates of the same kind."""
    generator = np.random.default_rng(seed)
    rights = generator.binomial(answers, generator.beta(a, b, questions))
    return [(answers, int(right)) for right in rights], generator.beta(a, b, 100_000)


@pytest.mark.parametrize(("a", "b", "k"), [(0.3, 0.9, 8), (2, 6, 4), (0.2, 0.05, 8), (0.05, 2, 8)])
def test_the_expected_share_is_that_of_further_questions(a: float, b: float, k: int) -> None:
    """On many questions the estimate comes near to what simulated groups of further questions have; on few its interval holds it."""
    counts, rates = population(a, b, 3000, 4, 1)
    truth = float(np.mean(1 - rates**k - (1 - rates) ** k))
    assert signal_share(counts, k).mean == pytest.approx(truth, abs=0.03)
    covered = 0
    for seed in range(20):
        interval = signal_share(population(a, b, 40, 4, seed + 2)[0], k)
        covered += interval.low <= truth <= interval.high
    assert covered >= 16


def test_all_wrong_is_not_taken_for_never_right() -> None:
    few, many = signal_share([(4, 0)] * 8, 8), signal_share([(8, 0)] * 400, 8)
    assert few.mean is not None and many.mean is not None
    assert 0.02 < few.mean < 0.15 and few.low < 0.01 and few.high > 0.2
    assert 0 < many.mean < 0.01
    unknown = signal_share([], 8)
    assert (unknown.mean, unknown.low, unknown.high) == (None, 0, 1)


def test_larger_groups_have_signal_more_often() -> None:
    counts = [(8, right) for right in (0, 0, 0, 1, 1, 2, 3, 5, 8, 8)]
    shares = [signal_share(counts, k).mean or 0 for k in (2, 4, 8, 16)]
    assert shares == sorted(shares) and shares[0] < 0.4 < shares[-1]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=30), st.integers(2, 16))
def test_right_and_wrong_are_treated_alike(counts: list[tuple[int, int]], k: int) -> None:
    share, mirrored = signal_share(counts, k), signal_share([(n, n - right) for n, right in counts], k)
    assert 0 <= share.low <= (share.mean or 0) <= share.high <= 1
    assert (share.mean, share.low, share.high) == pytest.approx((mirrored.mean, mirrored.low, mirrored.high), abs=1e-6)
