"""What the judge needs of a model: to rate one answer, and to say which of two is better.

The verifier takes any object of this shape, so that nothing here has to know how a model is run: judge_endpoint.EndpointScorer asks an
endpoint, models/reward_model.RewardModel runs a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from prefkit.verify.judge_rubric import Rubric

Choice = Literal["first", "second", "tie"]


class ScorerUnavailable(Exception):
    """No rating could be had, through no fault of the answer: no connection, a reply that cannot be read. The message holds no secret."""


class CannotJudge(Exception):
    """This scorer cannot judge such texts, however often it is asked: too long for it, for example."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a scorer. prompt: the task that was given. reference: an answer known to be good, or "".

    answers: one to rate, or two to choose between, in the order in which they are shown.
    """

    prompt: str
    answers: tuple[str, ...]
    rubric: Rubric
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Rating:
    """score: from 0 to 1. parts: marks of the criteria. reason: in the model's own words."""

    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


class Scorer(Protocol):
    """A model that judges. Both methods raise ScorerUnavailable and CannotJudge; they may be called from several threads at once."""

    @property
    def identity(self) -> Mapping[str, str]:
        """All that tells this scorer from others: model, endpoint, version of its prompts. Part of the cache's key; holds no secret."""
        ...

    @property
    def sees_order(self) -> bool:
        """Whether the order of two answers could sway it: then both orders are asked."""
        ...

    def rate(self, question: Question) -> Rating: ...

    def prefer(self, question: Question) -> Choice: ...
