"""From how many of a question's answers were right: pass@k over questions, and how many groups of k answers will have signal.

A group of k answers to one question teaches in GRPO only where some are right and some wrong: with the pass rate p of its question the
chance of that is 1 - p^k - (1 - p)^k. The pass rates are not known, only a few answers of each question are, and neither "0 of 8" nor
"8 of 8" means that the rate is 0 or 1. So the rates are taken as draws from a Beta distribution, whose two parameters are estimated from
all questions together (the hierarchical binomial model of Gelman et al., Bayesian Data Analysis, 3rd edition, section 5.3, with its prior:
uniform on the mean and on the inverse square root of the concentration), and the figure is that of a further question of the same kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prefkit.statistics import Interval, mean_interval, pass_at_k

Counts = Sequence[tuple[int, int]]
"""For each question: (answers, how many of them are right)."""

_MEANS, _SPREADS, _WIDEST = 160, 60, 4.0


def pass_at(counts: Counts, k: int) -> Interval:
    """pass@k over the questions with at least `k` answers, with the question as the unit that is drawn."""
    return mean_interval([pass_at_k(answers, right, k) for answers, right in counts if answers >= k])


def signal_share(counts: Counts, k: int) -> Interval:
    """The expected share of groups of `k` answers that hold right and wrong ones, over further questions like these.

    `mean` is the posterior mean, `low` and `high` the central 95 % of the posterior. Without questions nothing is known: mean is None.
    The grid of 160 means and 60 concentrations is fixed, so equal counts give equal figures.
    """
    import numpy as np
    from scipy.special import betaln

    if not counts:
        return Interval(None, 0.0, 1.0, 0)
    angles = (np.arange(_MEANS) + 0.5) / _MEANS * np.pi / 2
    roots = (np.arange(_SPREADS) + 0.5) / _SPREADS * _WIDEST
    # The mean is the squared sine of the angle, so that the grid is fine near 0 and 1; sin(2·angle) is the width that this gives a cell.
    mean, concentration = np.sin(angles)[:, None] ** 2, roots[None, :] ** -2
    a, b = mean * concentration, (1 - mean) * concentration
    whole = betaln(a, b)
    weight = np.log(np.sin(2 * angles))[:, None] + np.zeros_like(a)
    for (answers, right), times in Counter(counts).items():
        weight += times * (betaln(a + right, b + answers - right) - whole)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    share = 1 - np.exp(betaln(a + k, b) - whole) - np.exp(betaln(a, b + k) - whole)
    order = np.argsort(share, axis=None)
    sorted_share, below = share.ravel()[order], weight.ravel()[order].cumsum()
    low, high = (float(sorted_share[min(int(np.searchsorted(below, level)), len(below) - 1)]) for level in (0.025, 0.975))
    return Interval(float((weight * share).sum()), max(0.0, low), min(1.0, high), len(counts))
