"""What a task is: questions by split, the prompt of each, and the check that judges an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, str]
"""One chat message: {"role": "system" | "user" | "assistant", "content": text}."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question.

    id: unique within the task. level: 1 (easy) to 5. gold: the right answer, or all that are accepted.
    pattern: the hand-written pattern a training question was made from; None where it was written on its own.
    """

    id: str
    split: str
    database: str
    level: int
    question: str
    gold: str | tuple[str, ...]
    pattern: str | None = None

    @property
    def golds(self) -> tuple[str, ...]:
        """All accepted answers; the first is the reference."""
        return (self.gold,) if isinstance(self.gold, str) else self.gold


class Task(Protocol):
    """One family of questions whose answers can be checked by running them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have questions, in the order train, validation, test, unseen, ingested."""
        ...

    def load(self, split: str) -> list[Example]:
        """All questions of a split in their fixed order. Raises DataError for a split that is not there."""
        ...

    @property
    def template(self) -> str:
        """Hash of how prompts are worded, whatever the question: two tasks of one template word the same question alike."""
        ...

    def prompt(self, example: Example) -> list[Message]:
        """The messages that a model answers."""
        ...

    def correction_prompt(self, messages: Sequence[Message], answer: str, feedback: str) -> list[Message]:
        """The messages that a model answers after `answer` to `messages` was wrong and the verifier said `feedback` of it."""
        ...

    def check(self, example: Example, answer: str, id: str | None = None) -> Any:
        """What a verify.Scheduler judges `answer` by; `id` names the answer, by default the example."""
        ...
