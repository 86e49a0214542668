"""Preference pairs from verified answers: a right one over a wrong one of the same prompt, each row with its receipt.

| chosen          | from                                                                     | source     |
|-----------------|--------------------------------------------------------------------------|------------|
| right answer    | the model's own answers to the prompt                                    | model      |
| reference       | the gold: in rounds on references, or where `fallback` allows it         | reference  |
| logged answer   | what users were given or wrote themselves, where `fallback` allows it    | history    |
| right repair    | the model's next turn after feedback                                     | correction |

| rejected        | from                                                                     | rejected_source |
|-----------------|--------------------------------------------------------------------------|-----------------|
| wrong answer    | the model's own answers to the prompt                                    | model           |
| changed answer  | the right one with one part changed, executed and found wrong            | mutation        |
| logged answer   | what users complained of                                                 | history         |
| none            |                                                                          | null            |

Own answers come first on both sides. Where there is no wrong one (every own answer is right, none holds a query, or the model was not
asked) and none is made by mutation, the row has no rejected side and teaches by likelihood alone: the prompt stays in the training, as
solved prompts must, or they are forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prefkit.data.pair_checks import dropped, figures
from prefkit.data.rollouts import grouped
from prefkit.data.strategies import STRATEGIES, matched, not_compared
from prefkit.tasks.base import Example, Task
from prefkit.verify.extract import extract_sql

__all__ = ["STRATEGIES", "Draft", "Settings", "Side", "correction_pair", "own_pairs", "reference_pairs"]

Row = dict[str, Any]
Group = Sequence[tuple[Row, Row]]
"""The answers to one question: (rollout, verdict)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How pairs are made. `max_tokens`: longer rows (prompt and answer) are dropped, never cut; `end_id`: the token that ends an answer.

    fallback: where none of the model's answers is right, what may stand on the right side: "reference", "history", the first that there is.
    """

    strategy: str
    per_prompt: int
    max_tokens: int
    end_id: int
    seed: int
    fallback: tuple[str, ...] = ()


Tokenize = Callable[[list[Row]], list[Row]]
"""{"messages", "answers"} -> {"prompt_ids", "answer_ids"}: token ids, each answer with its end token."""


class Side:
    """One side of a pair: its text, token ids (with the end token) and receipt."""

    __slots__ = ("ids", "logprob", "rollout", "source", "text", "verdict")

    def __init__(
        self,
        text: str,
        ids: list[int],
        rollout: str | None = None,
        verdict: Row | None = None,
        logprob: float = 0.0,
        source: str = "model",
    ):
        self.text, self.ids, self.rollout, self.verdict, self.logprob, self.source = text, ids, rollout, verdict, logprob, source


@dataclass(slots=True)
class Draft:
    """The pairs of one prompt while they are made: (chosen, rejected or None). known: the texts of all its answers."""

    example: Example
    messages: list[Row]
    prompt_ids: list[int]
    sides: list[tuple[Side, Side | None]]
    known: frozenset[str]

    @property
    def pairs(self) -> int:
        """Those with both sides."""
        return sum(rejected is not None for _, rejected in self.sides)


class Negatives(Protocol):
    """What makes wrong answers where the model gave too few: see hard_negatives.py. `counts` is what it did."""

    @property
    def counts(self) -> Mapping[str, Any]: ...

    def fill(self, drafts: Sequence[Draft], per_prompt: int) -> None:
        """Put rejected sides into drafts with fewer than `per_prompt` pairs."""
        ...


def reference_pairs(
    task: Task,
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    settings: Settings,
    tokenize: Tokenize,
    others: Sequence[Row] = (),
    negatives: Negatives | None = None,
) -> tuple[list[Row], Row]:
    """The reference of each question over the model's own wrong answer to it. Returns rows and counts. `others`: rows made elsewhere.

    A base model wraps its query in prose that often does not end in time. The rejected side is the query itself, as the verifier took it
    out of the answer: the contrast is between queries, not between manners of speech.
    """
    groups = grouped(rollouts, verdicts)
    messages = [task.prompt(example) for example in examples]
    mistakes = [_mistake(groups.get(example.id, [])) for example in examples]
    answers = [[example.golds[0], *(mistake[1:] if mistake else ())] for example, mistake in zip(examples, mistakes, strict=True)]
    tokens = tokenize([{"messages": asked, "answers": texts} for asked, texts in zip(messages, answers, strict=True)])
    drafts = []
    for example, asked, mistake, ids in zip(examples, messages, mistakes, tokens, strict=True):
        chosen = Side(example.golds[0], ids["answer_ids"][0], source="reference")
        rejected = None
        if mistake:
            (row, verdict), query = mistake
            rejected = Side(query, ids["answer_ids"][1], row["id"], verdict)
        known = frozenset(text for texts in answers for text in texts)
        drafts.append(Draft(example, asked, ids["prompt_ids"], [(chosen, rejected)], known))
    return _finished(drafts, others, settings, Counter(), negatives)


def _mistake(group: Group) -> tuple[tuple[Row, Row], str] | None:
    """The first wrong answer that holds a query, and the query."""
    for row, verdict in group:
        if verdict["score"] == 0 and (query := extract_sql(row["completion"])):
            return (row, verdict), query
    return None


def own_pairs(
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    others: Sequence[Row],
    settings: Settings,
    tokenize: Tokenize | None = None,
    history: tuple[Sequence[Row], Sequence[Row]] = ((), ()),
    negatives: Negatives | None = None,
) -> tuple[list[Row], Row]:
    """Own right answers over own wrong ones; without `settings.fallback` no gold is ever part of a row. Returns rows and counts.

    others: rows made elsewhere: repairs (`correction_pair`), pairs out of logs. tokenize: needed with a fallback. history: rollouts and
    verdicts of logged answers, their `model` is "history".
    """
    groups, logged = grouped(rollouts, verdicts), grouped(*history)
    counts: Counter[str] = Counter(prompts_all_right=0)
    drafts: list[Draft] = []
    for example in examples:
        group = groups[example.id]
        right, wrong = (_unique(group, score) for score in (1, 0))
        sides: list[tuple[Side, Side | None]] = []
        if right and wrong:
            draw = random.Random(f"{settings.seed}/{example.id}")
            sides += matched(right, wrong, settings.strategy, settings.per_prompt, draw)
            if left_out := not_compared(right, wrong):
                counts["answers_not_compared"] += left_out
        elif right:
            sides.append((right[0], None))
            counts["prompts_all_right"] += 1
        else:
            counts["prompts_none_right"] += 1
            if chosen := _fallback(example, logged.get(example.id, ()), settings.fallback):
                sides += matched([chosen], wrong, settings.strategy, settings.per_prompt, random.Random(0)) or [(chosen, None)]
        first = group[0][0]
        drafts.append(Draft(example, first["messages"], first["prompt_ids"], sides, frozenset(row["completion"] for row, _ in group)))
    _tokenized([draft for draft in drafts if draft.sides and not draft.sides[0][0].ids], tokenize)
    return _finished(drafts, others, settings, counts, negatives)


def _fallback(example: Example, logged: Group, sources: Iterable[str]) -> Side | None:
    """The right side where the model has none; its tokens are made later."""
    for source in sources:
        if source == "reference":
            return Side(example.golds[0], [], source="reference")
        for row, verdict in logged:
            if source == "history" and verdict["score"] == 1:
                return Side(row["completion"], [], row["id"], verdict, source="history")
    return None


def _tokenized(drafts: Sequence[Draft], tokenize: Tokenize | None) -> None:
    """Give the chosen sides that no model wrote their tokens."""
    if not drafts:
        return
    if tokenize is None:
        raise ValueError("a fallback needs tokenize")
    found = tokenize([{"messages": draft.messages, "answers": [draft.sides[0][0].text]} for draft in drafts])
    for draft, tokens in zip(drafts, found, strict=True):
        draft.sides[0][0].ids = tokens["answer_ids"][0]


def _unique(group: Group, score: int) -> list[Side]:
    """Distinct finished answers of one score, the ones the model gave most often first."""
    times = Counter(row["completion"] for row, _ in group)
    sides: dict[str, Side] = {}
    for row, verdict in group:
        if verdict["score"] == score and row["ended"] and row["completion"] not in sides:
            logprob = sum(row["logprobs"])
            sides[row["completion"]] = Side(row["completion"], row["completion_ids"], row["id"], verdict, logprob)
    return sorted(sides.values(), key=lambda side: (-times[side.text], side.rollout or ""))


def _finished(
    drafts: Sequence[Draft], others: Sequence[Row], settings: Settings, counts: Counter[str], negatives: Negatives | None
) -> tuple[list[Row], Row]:
    """The rows of all drafts and those made elsewhere, without what would train wrongly; and every count."""
    if negatives is not None:
        negatives.fill([draft for draft in drafts if draft.sides], settings.per_prompt)
    rows = [_pair(draft.example, draft.messages, draft.prompt_ids, *both) for draft in drafts for both in draft.sides]
    kept, drops = dropped([*rows, *others], settings.max_tokens, settings.end_id)
    return kept, {**figures(kept), **counts, **drops, **(negatives.counts if negatives is not None else {})}


def _pair(example: Example, messages: list, prompt_ids: list[int], chosen: Side, rejected: Side | None) -> Row:
    return {
        "id": f"{chosen.rollout or example.id + '/reference'}>{rejected.rollout if rejected else 'none'}",
        "example_id": example.id,
        "database": example.database,
        "level": example.level,
        "prompt": messages,
        "chosen": [{"role": "assistant", "content": chosen.text}],
        "rejected": [{"role": "assistant", "content": rejected.text}] if rejected else None,
        "prompt_ids": prompt_ids,
        "chosen_ids": chosen.ids,
        "rejected_ids": rejected.ids if rejected else None,
        "source": chosen.source,
        "rejected_source": rejected.source if rejected else None,
        "chosen_rollout": chosen.rollout,
        "rejected_rollout": rejected.rollout if rejected else None,
        "chosen_verdict": chosen.verdict["key"] if chosen.verdict else None,
        "rejected_verdict": rejected.verdict["key"] if rejected and rejected.verdict else None,
        "rejected_status": rejected.verdict["status"] if rejected and rejected.verdict else None,
        "rejected_reason": rejected.verdict.get("reason") if rejected and rejected.verdict else None,
    }


def correction_pair(example: Example, right: tuple[Row, Row | None], wrong: tuple[Row, Row] | None) -> Row:
    """A repair that passed over one that did not; the prompt is the failed turn with its feedback.

    `right` without an id is the gold. Without `wrong` the row teaches by likelihood alone.
    """
    (row, verdict), source = right, "correction" if right[0]["id"] else "reference"
    chosen = Side(row["completion"], row["completion_ids"], row["id"], verdict, source=source)
    rejected = Side(wrong[0]["completion"], wrong[0]["completion_ids"], wrong[0]["id"], wrong[1]) if wrong else None
    return _pair(example, row["messages"], row["prompt_ids"], chosen, rejected)
