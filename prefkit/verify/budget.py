"""What judging one answer in this process may take: a number of steps, and seconds as the last word.

Steps decide, because they are the same on every machine. Seconds are for what happens within a step: a pattern of the task's author on a
text of the model's, which can take for ever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prefkit.verify.verdict import Status

if TYPE_CHECKING:
    import regex

MAX_PATTERN_TEXT = 20_000
"""Characters of a text that a pattern is tried on."""


_UNWATCHED = 64
"""Steps between two looks at the clock."""


class BudgetSpent(Exception):
    """Judging took too much. status: LIMIT or TIMEOUT."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Budget:
    """steps: how many there are. seconds: of this thread's processor time, from now on."""

    def __init__(self, steps: int, seconds: float) -> None:
        self._left = steps
        self._seconds = seconds
        self._begin = time.thread_time()
        self._patterns_s = 0.0
        self._unwatched = 0

    def spend(self, steps: int = 1) -> None:
        """Raises BudgetSpent where there are not that many left."""
        self._left -= steps
        if self._left < 0:
            raise BudgetSpent(Status.LIMIT, "limit: steps of judging")
        self._unwatched += 1
        if self._unwatched < _UNWATCHED:
            return
        self._unwatched = 0
        if time.thread_time() - self._begin > self._seconds:
            raise BudgetSpent(Status.TIMEOUT, "time limit: judging")

    def matches(self, pattern: regex.Pattern[str], text: str, whole: bool = False) -> bool:
        """Whether the pattern is found in the text, or is the whole of it. Raises BudgetSpent for a long text, or one that takes long."""
        self.spend()
        if len(text) > MAX_PATTERN_TEXT:
            raise BudgetSpent(Status.LIMIT, f"limit: text for a pattern longer than {MAX_PATTERN_TEXT} characters")
        left = self._seconds - self._patterns_s
        begin = time.thread_time()
        try:
            found = pattern.fullmatch(text, timeout=max(left, 0.001)) if whole else pattern.search(text, timeout=max(left, 0.001))
        except TimeoutError:
            raise BudgetSpent(Status.TIMEOUT, "time limit: pattern") from None
        self._patterns_s += time.thread_time() - begin
        return found is not None


def compile_pattern(text: str) -> regex.Pattern[str]:
    """A pattern for `Budget.matches`. Raises ValueError that says what is wrong with it."""
    import regex

    try:
        return regex.compile(text)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
