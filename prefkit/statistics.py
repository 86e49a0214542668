"""Intervals and tests for shares of questions, with one question as the unit that is drawn.

Everything here is closed-form or exact, apart from :func:`sign_flip_p`, which draws sign flips with a fixed seed: equal data give equal
figures. The intervals are chosen for their behaviour where model evaluations live: few questions, shares near 0 or 1, and comparisons in
which most questions do not change. Plain bootstrap intervals fail there: they have width 0 when every value is equal, and exclude 0 when
four questions of 120 were won and none was lost, which a fair coin does one time in eight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over ``n`` questions with its 95 % interval; shares and differences of shares, so 0.25 is 25 %.

    ``mean`` is None when there are no questions; the bounds are then the widest there can be.
    """

    mean: float | None
    low: float
    high: float
    n: int

    @property
    def sign(self) -> int:
        """1 where the whole interval is above 0, -1 where it is below, 0 where it contains 0 (a bound that is 0 counts as contained)."""
        if self.low > 0:
            return 1
        return -1 if self.high < 0 else 0

    def to_dict(self) -> dict[str, float | int | None]:
        """The four figures as plain values, for JSON."""
        return asdict(self)


def wilson(successes: int, n: int) -> Interval:
    """Wilson's score interval for ``successes`` of ``n`` questions (E. B. Wilson, JASA 1927).

    Raises:
        ValueError: where ``successes`` is not within 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} questions cannot be")
    if n == 0:
        return Interval(None, 0.0, 1.0, 0)
    low, high = _wilson_bounds(successes / n, n, _Z)
    return Interval(successes / n, low, high, n)


def mean_interval(values: Sequence[float]) -> Interval:
    """Interval for the mean of one value a question, each within 0 and 1: the share of a question's sampled answers that were right.

    The question is the unit, so that eight samples of one question do not pass for eight questions. It is Wilson's interval at the
    effective number of questions, which is the number that would give shares of 0 and 1 the variance seen, with Student's t (Korn and
    Graubard, Survey Methodology 1998, for design effects). The variance counts one question more than there is, as far from the mean as the
    farthest one, because few questions seldom show the rare ones that are unlike the rest. Where all values are equal the variance says
    nothing, and the number of questions is taken: 120 questions without one right sample give an upper bound of 3.1 %, not of 0.
    """
    n = len(values)
    if n == 0:
        return Interval(None, 0.0, 1.0, 0)
    if min(values) < 0 or max(values) > 1:
        raise ValueError("mean_interval takes values within 0 and 1")
    mean = min(1.0, math.fsum(values) / n)
    if min(values) == max(values):
        return Interval(mean, *_wilson_bounds(mean, n, _Z), n)
    squares = [(value - mean) ** 2 for value in values]
    variance = (math.fsum(squares) + max(squares)) / (n - 1)
    return Interval(mean, *_wilson_bounds(mean, n * mean * (1 - mean) / variance, _student(n - 1)), n)


def _wilson_bounds(share: float, n: float, z: float) -> tuple[float, float]:
    shrink = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / shrink
    # At 0 and 1 one bound is 0 or 1 exactly; rounding must not leave it at 1e-17.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def paired_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Interval for the mean of ``after - before``, paired over questions; each value within 0 and 1.

    For answers that are right or wrong it is the adjusted interval of Bonett and Price (J. Educ. Behav. Stat., 2012), with Student's t in
    place of the normal quantile: one question won and one lost are added to what was seen. For shares of samples the two added questions
    differ by the root mean square of the differences that are not 0, which is 1 for right or wrong. No difference anywhere gives [0, 0];
    a single question, or none, gives [-1, 1].

    Raises:
        ValueError: where the two do not have the same length.
    """
    if len(before) != len(after):
        raise ValueError(f"paired values must have one length, not {len(before)} and {len(after)}")
    n = len(before)
    if n == 0:
        return Interval(None, -1.0, 1.0, 0)
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean = math.fsum(differences) / n
    changed = sum(1 for d in differences if d != 0)
    if not changed:
        return Interval(0.0, 0.0, 0.0, n)
    if n == 1:
        return Interval(mean, -1.0, 1.0, 1)
    squares = math.fsum(d * d for d in differences)
    centre = math.fsum(differences) / (n + 2)
    variance = (squares + 2 * squares / changed) / (n + 2) - centre**2
    half = _student(n - 1) * math.sqrt(max(0.0, variance) / (n + 2))
    return Interval(mean, max(-1.0, centre - half), min(1.0, centre + half), n)


def mcnemar_p(won: int, lost: int) -> float:
    """Two-sided mid-p McNemar test on the questions that changed (Fagerland, Lydersen and Laake, BMC Med. Res. Methodol., 2013)."""
    from scipy.special import bdtr

    if won == lost:
        return 1.0
    changed, few = won + lost, min(won, lost)
    # Both tails beyond what was seen, and half of what was seen, twice: the two cumulative shares of one tail.
    return float(bdtr(few, changed, 0.5) + (bdtr(few - 1, changed, 0.5) if few else 0.0))


def sign_flip_p(differences: Sequence[float], draws: int = 20_000, seed: int = 0) -> float:
    """Two-sided sign-flip test of a mean difference of 0: how often flipping each question's difference at random goes as far from 0.

    The observed arrangement counts as one of the draws, so the smallest value is 1 / (draws + 1).
    """
    import numpy as np

    moved = np.asarray([d for d in differences if d != 0], dtype=np.float64)
    if moved.size == 0:
        return 1.0
    observed = abs(moved.sum())
    generator = np.random.default_rng(seed)
    as_far, block = 0, 1000
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        signs = generator.integers(0, 2, size=(rows, moved.size)) * 2.0 - 1.0
        # A hair below the observed sum: equal sums in another order of addition must count.
        as_far += int((np.abs(signs @ moved) >= observed - 1e-9).sum())
    return (as_far + 1) / (draws + 1)


def pass_at_k(answers: int, right: int, k: int) -> float:
    """The chance that at least one of ``k`` answers to a question is right, estimated without bias from ``right`` of ``answers``.

    It is 1 - C(answers - right, k) / C(answers, k): the share of all choices of k of the answers that hold a right one (Chen et al.,
    "Evaluating Large Language Models Trained on Code", 2021, arXiv 2107.03374, equation 1).

    Raises:
        ValueError: where ``right`` is not within 0 and ``answers``, or ``k`` not within 1 and ``answers``.
    """
    if not 0 <= right <= answers or not 1 <= k <= answers:
        raise ValueError(f"pass@{k} cannot be had from {right} right ones of {answers} answers")
    return 1 - math.comb(answers - right, k) / math.comb(answers, k)


def smallest_gain(n: int, lost: float = 0.05, power: float = 0.8) -> float | None:
    """The smallest true gain that ``n`` paired questions show with probability ``power``: the 95 % interval then lies above 0.

    Args:
        n: questions in the comparison.
        lost: share of questions that are right before and wrong after although the model got better; training always loses some.
        power: probability that a gain of this size is shown.

    Returns:
        A share of questions (0.1 is ten points), or None where no gain at all would be shown that reliably.
    """
    if n < 2:
        return None
    quantile, reach = _student(n - 1), NormalDist().inv_cdf(power)

    def shown(gain: float) -> bool:
        changed = gain + 2 * lost
        spread = math.sqrt(max(0.0, n * (changed - gain**2)))
        margin = math.sqrt(max(0.0, n * changed + 2 - (n * gain) ** 2 / (n + 2)))
        return n * gain - reach * spread >= quantile * margin

    highest = 1 - 2 * lost
    if not shown(highest):
        return None
    low, high = 0.0, highest
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def _student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
