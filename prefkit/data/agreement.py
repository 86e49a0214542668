"""How far two judges of the same answers agree: the table of their votes, and Cohen's kappa with its interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of answers by both judges: the user's thumb, then the verdict.

    up_pass: thumb up and verdict PASS; up_fail: thumb up and another scored verdict; down_pass, down_fail: the same with thumb down.
    """

    up_pass: int = 0
    up_fail: int = 0
    down_pass: int = 0
    down_fail: int = 0

    @property
    def n(self) -> int:
        return self.up_pass + self.up_fail + self.down_pass + self.down_fail

    @property
    def share(self) -> float | None:
        """The share of answers on which both say the same; None without answers."""
        return (self.up_pass + self.down_fail) / self.n if self.n else None

    def kappa(self) -> tuple[float, float, float] | None:
        """Cohen's kappa (Educational and Psychological Measurement 1960) and its 95 % interval; None where chance alone explains all.

        The interval is the large-sample one of Fleiss, Cohen and Everitt (Psychological Bulletin 1969). It takes votes as drawn one by
        one, and is too narrow where few answers, or few users, give most of them.
        """
        if not self.n:
            return None
        shares = [[self.up_pass / self.n, self.up_fail / self.n], [self.down_pass / self.n, self.down_fail / self.n]]
        rows, columns = [sum(row) for row in shares], [sum(column) for column in zip(*shares, strict=True)]
        seen = shares[0][0] + shares[1][1]
        chance = sum(row * column for row, column in zip(rows, columns, strict=True))
        if math.isclose(chance, 1):
            return None
        kappa = (seen - chance) / (1 - chance)
        same = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in (0, 1))
        other = (1 - kappa) ** 2 * sum(shares[i][1 - i] * (columns[i] + rows[1 - i]) ** 2 for i in (0, 1))
        variance = (same + other - (kappa - chance * (1 - kappa)) ** 2) / (self.n * (1 - chance) ** 2)
        reach = _Z * math.sqrt(max(0.0, variance))
        return kappa, max(-1.0, kappa - reach), min(1.0, kappa + reach)

    def to_dict(self) -> dict[str, Any]:
        """Counts, the share with Wilson's 95 % interval, and kappa with its own; null where there is nothing to say."""
        result: dict[str, Any] = {**asdict(self), "n": self.n, "share": None, "kappa": None}
        if self.n:
            from scipy.stats import binomtest

            interval = binomtest(self.up_pass + self.down_fail, self.n).proportion_ci(method="wilson")
            result["share"] = {"mean": self.share, "low": float(interval.low), "high": float(interval.high)}
        if (found := self.kappa()) is not None:
            result["kappa"] = dict(zip(("value", "low", "high"), found, strict=True))
        return result
