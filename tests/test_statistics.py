"""Intervals and tests against published values, independent formulas, and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from prefkit.statistics import (
    Interval,
    mcnemar_p,
    mean_interval,
    paired_interval,
    sign_flip_p,
    smallest_gain,
    wilson,
)

shares = st.integers(0, 8).map(lambda right: right / 8)


def from_counts(won: int, lost: int, n: int) -> tuple[list[float], list[float]]:
    """Answers before and after with so many won and lost; the rest stay as they are, half right."""
    same = [float(i % 2) for i in range(n - won - lost)]
    return [0.0] * won + [1.0] * lost + same, [1.0] * won + [0.0] * lost + same


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_intervals_that_newcombe_published(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert interval.low == pytest.approx(low, abs=6e-5)
    assert interval.high == pytest.approx(high, abs=6e-5)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(drawn: tuple[int, int]) -> None:
    successes, n = drawn
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    interval = wilson(successes, n)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert interval.mean == successes / n


def test_no_questions_say_nothing() -> None:
    assert wilson(0, 0) == mean_interval([]) == Interval(None, 0.0, 1.0, 0)
    assert paired_interval([], []) == Interval(None, -1.0, 1.0, 0)
    assert paired_interval([0.0], [1.0]) == Interval(1.0, -1.0, 1.0, 1)
    assert mcnemar_p(0, 0) == sign_flip_p([]) == sign_flip_p([0.0, 0.0]) == 1.0


def test_impossible_input_is_refused() -> None:
    with pytest.raises(ValueError, match="5 successes of 4"):
        wilson(5, 4)
    with pytest.raises(ValueError, match="within 0 and 1"):
        mean_interval([0.5, 1.5])
    with pytest.raises(ValueError, match="not 1 and 2"):
        paired_interval([0.0], [0.0, 1.0])


@pytest.mark.parametrize("value", [0.0, 1.0, 0.25])
def test_equal_values_leave_the_doubt_of_their_number(value: float) -> None:
    """A bootstrap would give an interval of width 0 here."""
    n_120, n_12 = mean_interval([value] * 120), mean_interval([value] * 12)
    assert n_12.low <= n_120.low <= value <= n_120.high <= n_12.high
    assert n_120.high - n_120.low > 0.03
    assert n_12.high - n_12.low > 0.2


@given(st.lists(shares, min_size=1, max_size=60))
def test_mean_interval_holds_its_mean_within_0_and_1(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval.mean is not None
    assert interval.mean == pytest.approx(sum(values) / len(values))
    assert 0 <= interval.low <= interval.mean + 1e-12
    assert interval.mean - 1e-12 <= interval.high <= 1


def test_samples_of_one_question_do_not_count_as_questions() -> None:
    """40 questions, each with 8 samples that agree: as uncertain as 40 answers, not as 320."""
    interval = mean_interval([1.0] * 20 + [0.0] * 20)
    assert interval.high - interval.low >= wilson(20, 40).high - wilson(20, 40).low
    assert interval.high - interval.low > 2 * (wilson(160, 320).high - wilson(160, 320).low)


@pytest.mark.parametrize(
    ("name", "rare", "n"),
    [("rare and half known", (0.05, 0.3), 120), ("rare and known", (0.02, 0.8), 80), ("spread", None, 80)],
)
def test_mean_interval_covers_the_truth_as_often_as_it_says(name: str, rare: tuple[float, float] | None, n: int) -> None:
    generator = np.random.default_rng(11)
    rounds, covered = 1500, 0
    truth = rare[0] * rare[1] if rare else 0.4 / 1.6
    for _ in range(rounds):
        chance = np.where(generator.random(n) < rare[0], rare[1], 0.0) if rare else generator.beta(0.4, 1.2, n)
        interval = mean_interval(list(generator.binomial(8, chance) / 8))
        covered += interval.low <= truth <= interval.high
    assert covered / rounds > 0.94, name


@pytest.mark.parametrize(("won", "lost", "n"), [(6, 0, 120), (10, 2, 120), (50, 3, 120), (1, 7, 21), (0, 9, 30), (30, 0, 30)])
def test_paired_interval_is_that_of_bonett_and_price_with_students_t(won: int, lost: int, n: int) -> None:
    up, down = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    half = stats.t.ppf(0.975, n - 1) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    interval = paired_interval(*from_counts(won, lost, n))
    assert interval.mean == pytest.approx((won - lost) / n)
    assert interval.low == pytest.approx(max(-1, up - down - half))
    assert interval.high == pytest.approx(min(1, up - down + half))


def test_no_difference_anywhere_is_exactly_nothing() -> None:
    assert paired_interval([0.0, 1.0, 0.5], [0.0, 1.0, 0.5]) == Interval(0.0, 0.0, 0.0, 3)
    assert paired_interval([0.0, 1.0], [0.0, 1.0]).sign == 0


def test_a_few_won_questions_are_no_gain() -> None:
    """Four won and none lost: a coin does that one time in eight, and a bootstrap interval would lie above 0."""
    assert [paired_interval(*from_counts(won, 0, 120)).sign for won in range(1, 8)] == [0, 0, 0, 0, 0, 1, 1]


def test_what_counts_as_a_gain_is_significant_in_the_exact_test_too() -> None:
    for n, won, lost in itertools.product((20, 80, 200), range(20), range(20)):
        if won + lost <= n and paired_interval(*from_counts(won, lost, n)).sign:
            assert mcnemar_p(won, lost) < 0.05, (n, won, lost)


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=60))
def test_paired_interval_holds_its_mean_and_turns_with_the_order(pairs: list[tuple[float, float]]) -> None:
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired_interval(before, after), paired_interval(after, before)
    assert there.mean is not None
    assert there.low - 1e-12 <= there.mean <= there.high + 1e-12
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@given(st.lists(st.tuples(shares, shares), min_size=8, max_size=40))
def test_paired_interval_keeps_to_the_scale(pairs: list[tuple[float, float]]) -> None:
    """Differences a quarter as large give an interval a quarter as wide: samples are not punished for small steps."""
    full = paired_interval([a for a, _ in pairs], [b for _, b in pairs])
    small = paired_interval([a / 4 for a, _ in pairs], [b / 4 for _, b in pairs])
    if full.low > -1 and full.high < 1:
        assert (small.low, small.high) == pytest.approx((full.low / 4, full.high / 4))


@pytest.mark.parametrize("n", [30, 120])
@pytest.mark.parametrize(("up", "down"), [(0.0, 0.0), (0.03, 0.03), (0.1, 0.1), (0.3, 0.05), (0.9, 0.02)])
def test_paired_interval_covers_the_truth_as_often_as_it_says(up: float, down: float, n: int) -> None:
    generator = np.random.default_rng(5)
    rounds, covered = 1000, 0
    for won, lost, _ in generator.multinomial(n, [up, down, 1 - up - down], rounds):
        interval = paired_interval(*from_counts(int(won), int(lost), n))
        covered += interval.low <= up - down <= interval.high
    assert covered / rounds > 0.935


def test_paired_interval_of_samples_covers_nothing_where_there_is_nothing() -> None:
    """Two evaluations of one policy, eight samples a question: at most one interval in twenty may exclude 0."""
    generator = np.random.default_rng(8)
    rounds, alarms = 1500, 0
    for _ in range(rounds):
        chance = generator.beta(0.4, 0.8, 120)
        before, after = (list(generator.binomial(8, chance) / 8) for _ in range(2))
        alarms += paired_interval(before, after).sign != 0
    assert alarms / rounds < 0.06


def test_mcnemar_gives_the_value_that_fagerland_published() -> None:
    assert mcnemar_p(1, 7) == mcnemar_p(7, 1) == pytest.approx(0.0391, abs=5e-5)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_exact_test_less_half_of_what_was_seen(won: int, lost: int) -> None:
    if won == lost:
        assert mcnemar_p(won, lost) == 1.0
    else:
        exact = stats.binomtest(won, won + lost).pvalue
        assert mcnemar_p(won, lost) == pytest.approx(exact - stats.binom.pmf(won, won + lost, 0.5), abs=1e-9)


def test_mcnemar_does_not_break_on_many_questions() -> None:
    assert 0 <= mcnemar_p(9000, 1000) < 1e-100
    assert mcnemar_p(5000, 5000) == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-8, 8).filter(bool).map(lambda d: d / 8), min_size=1, max_size=8))
def test_sign_flips_agree_with_all_arrangements(differences: list[float]) -> None:
    observed = abs(sum(differences))
    flips = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    exact = sum(flip >= observed - 1e-9 for flip in flips) / len(flips)
    assert sign_flip_p(differences) == pytest.approx(exact, abs=0.015)


def test_sign_flips_are_the_same_each_time() -> None:
    differences = [0.125, -0.25, 0.5, 0.125, 0.375, 0.0]
    assert sign_flip_p(differences) == sign_flip_p(differences)


@pytest.mark.parametrize("n", [40, 120, 200])
def test_the_smallest_gain_is_shown_four_times_in_five(n: int) -> None:
    gain = smallest_gain(n)
    assert gain is not None
    generator = np.random.default_rng(2)
    shown = [
        paired_interval(*from_counts(int(won), int(lost), n)).sign == 1
        for won, lost, _ in generator.multinomial(n, [gain + 0.05, 0.05, 0.9 - gain], 2000)
    ]
    assert 0.77 < sum(shown) / len(shown) < 0.86


def test_more_questions_show_smaller_gains_and_too_few_show_none() -> None:
    assert [smallest_gain(n) for n in (0, 1, 2, 4)] == [None] * 4
    gains = [gain for n in (20, 50, 120, 200, 1000, 100_000) if (gain := smallest_gain(n)) is not None]
    assert len(gains) == 6
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < 0.004


def test_figures_go_to_json_as_they_are() -> None:
    assert wilson(1, 4).to_dict() == {"mean": 0.25, "low": wilson(1, 4).low, "high": wilson(1, 4).high, "n": 4}
