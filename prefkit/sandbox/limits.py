"""What one SQL execution may use."""

from __future__ import annotations

from dataclasses import dataclass, replace

STEPS_PER_SECOND = 10_000_000
"""SQLite VM steps that stand for a second of the time limit. SQLite does 30 to 120 million a second on a common processor,
so the step budget, which is the same on every machine and under every load, ends a query before the processor-time limit does."""

MAX_SQL = 100_000
"""Characters of one query; a longer one is refused before it is parsed."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """Limits on one execution on one database.

    timeout_s: time limit in seconds. It is judged on VM steps (deterministic); processor time, for work that takes no steps,
        is the backstop, and the wall clock the last word.
    rows, bytes: most rows and most bytes of values that a result may have.
    truncate: stop at the caps and keep what came so far, instead of a LIMIT outcome.
    """

    timeout_s: float = 2.0
    rows: int = 10_000
    bytes: int = 2_000_000
    truncate: bool = False

    @property
    def steps(self) -> int:
        return max(1000, int(self.timeout_s * STEPS_PER_SECOND))

    def wall_s(self, databases: int) -> float:
        """Seconds on the wall clock after which a worker is killed: generous, because a busy machine must not flip a verdict."""
        return 1.0 + 4.0 * self.timeout_s * max(1, databases)

    def longer(self, factor: float) -> SqlLimits:
        return replace(self, timeout_s=self.timeout_s * factor)
