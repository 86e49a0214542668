"""Two answers shown in both orders: what the two choices say together, and how far the place sways a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefkit.verify.judge_scorer import Choice
from prefkit.verify.verdict import Judgement, Status

OPPOSITE: dict[Choice, Choice] = {"first": "second", "second": "first", "tie": "tie"}
_BETTER, _WORSE, _EQUAL = "better than the other answer", "worse than the other answer", "as good as the other answer"
_FIRST = "the judge contradicts itself: the first place in both orders"
_SECOND = "the judge contradicts itself: the second place in both orders"
_HALF = "the judge contradicts itself: a tie in one order alone"
_HIGHER, _LOWER, _SAME = "higher reward than the other answer", "lower reward than the other answer", "same reward as the other answer"


def judged_in_both_orders(ahead: Choice, behind: Choice) -> Judgement:
    """ahead: the choice where the answer stands first; behind: where it stands second."""
    if behind == OPPOSITE[ahead]:
        return _judgement(ahead, _BETTER, _WORSE, _EQUAL)
    same_place = ahead == behind
    return Judgement(Status.UNVERIFIABLE, (_FIRST if ahead == "first" else _SECOND) if same_place else _HALF)


def judged_without_order(choice: Choice) -> Judgement:
    """For a scorer that reads each answer by itself, so that there is no order to be swayed by."""
    return _judgement(choice, _HIGHER, _LOWER, _SAME)


def _judgement(choice: Choice, better: str, worse: str, equal: str) -> Judgement:
    if choice == "first":
        return Judgement(Status.PASS, better, None, 1.0)
    if choice == "second":
        return Judgement(Status.WRONG, worse, "Another answer to the same task is better.", 0.0)
    return Judgement(Status.WRONG, equal, None, 0.5)


@dataclass(frozen=True, slots=True)
class Orders:
    """What both orders said, of some pairs. agreed: the same; first, second: that place won both times; half: a tie in one order alone."""

    agreed: int = 0
    first: int = 0
    second: int = 0
    half: int = 0

    @classmethod
    def of(cls, reasons: Mapping[str, int]) -> Orders:
        """Counted from verdicts: how often each reason was given. Reasons of other verdicts are passed over."""
        agreed = sum(reasons.get(name, 0) for name in (_BETTER, _WORSE, _EQUAL))
        return cls(agreed, *(reasons.get(name, 0) for name in (_FIRST, _SECOND, _HALF)))

    @property
    def pairs(self) -> int:
        return self.agreed + self.first + self.second + self.half

    @property
    def contradicted(self) -> int:
        return self.pairs - self.agreed

    @property
    def bias(self) -> float | None:
        """From -1 (always the second place) to 1 (always the first); 0 where place does not sway it, None without pairs."""
        return (self.first - self.second) / self.pairs if self.pairs else None

    def words(self) -> str:
        """One line for a person; empty without pairs."""
        if self.bias is None:
            return ""
        share = self.contradicted / self.pairs
        places = f": {self.first} for the first place, {self.second} for the second, {self.half} half" if share else ""
        pairs = f"{self.pairs} pair{'' if self.pairs == 1 else 's'}"
        return f"the judge saw {pairs} in both orders and contradicted itself in {self.contradicted} ({share:.1%}){places}"
