"""What a judge looks at: criteria with weights, and the mark from which an answer passes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from prefkit.verify.json_text import shown

LOWEST, HIGHEST = 0, 10
"""A judge's marks: whole or broken numbers in between."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,39}")
_MOST = 12


@dataclass(frozen=True, slots=True)
class Criterion:
    """name: in the judge's reply. question: what it is asked. weight: above 0; only the ratios between weights count."""

    name: str
    question: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rubric:
    """pass_at: weighted mean of the marks, on the scale from 0 to 1, from which an answer passes."""

    criteria: tuple[Criterion, ...]
    pass_at: float = 0.7

    @property
    def names(self) -> list[str]:
        return [criterion.name for criterion in self.criteria]

    def key(self) -> list[Any]:
        """All that decides a verdict, for JSON."""
        return [[[criterion.name, criterion.question, criterion.weight] for criterion in self.criteria], self.pass_at]

    def mean(self, marks: dict[str, float]) -> float:
        """Weighted mean of marks between LOWEST and HIGHEST, on the scale from 0 to 1."""
        total = sum(criterion.weight for criterion in self.criteria)
        mean = sum(criterion.weight * marks[criterion.name] for criterion in self.criteria) / total
        return (mean - LOWEST) / (HIGHEST - LOWEST)


DEFAULT = Rubric(
    (
        Criterion("correctness", "Is everything that the answer states true, and does it answer the question that was asked?", 4.0),
        Criterion("completeness", "Does it answer all of the question, leaving out nothing that was asked for?", 3.0),
        Criterion("consistency", "Do its parts agree with each other, and its steps with its result?", 2.0),
        Criterion("style", "Is it clear, to the point, and in the form that was asked for?", 1.0),
    )
)


def read_rubric(value: Any) -> Rubric:
    """A rubric as lines and recipes write it; None is DEFAULT.

    {"criteria": [{"name": …, "question": …, "weight": 1}…], "pass_at": 0.7}; a criterion of DEFAULT may leave its question out.
    Raises ValueError that says what was expected.
    """
    if value is None:
        return DEFAULT
    if not isinstance(value, dict) or not set(value) <= {"criteria", "pass_at"}:
        raise ValueError(f'"rubric" is an object with "criteria" and "pass_at", not {shown(value)}')
    given = value.get("criteria")
    criteria = DEFAULT.criteria if given is None else tuple(map(_read_criterion, given if isinstance(given, list) else [None]))
    if not 0 < len(criteria) <= _MOST or len({criterion.name for criterion in criteria}) < len(criteria):
        raise ValueError(f'"criteria" is a list of 1 to {_MOST} criteria with different names')
    pass_at = value.get("pass_at", DEFAULT.pass_at)
    if not _is_number(pass_at) or not 0 < pass_at <= 1:
        raise ValueError('"pass_at" is a number above 0 and up to 1')
    return Rubric(criteria, float(pass_at))


def _read_criterion(value: Any) -> Criterion:
    if not isinstance(value, dict) or not set(value) <= {"name", "question", "weight"}:
        raise ValueError(f'a criterion is an object with "name", "question" and "weight", not {shown(value)}')
    name, weight = value.get("name"), value.get("weight", 1.0)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError('the "name" of a criterion is a short text of letters, digits, blanks, - and _')
    known = {criterion.name: criterion.question for criterion in DEFAULT.criteria}
    question = value.get("question", known.get(name))
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f'the criterion {name} needs a "question"')
    if not _is_number(weight) or not 0 < weight <= 1000:
        raise ValueError(f'the "weight" of {name} is a number above 0 and up to 1000')
    return Criterion(name, question.strip(), float(weight))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
