"""Preference pairs from verified answers: a right one over a wrong one of the same prompt, each row with its receipt.

| chosen          | from                                                                     | source     |
|-----------------|--------------------------------------------------------------------------|------------|
| right answer    | the model's own answers to the prompt                                    | model      |
| reference       | the gold, in rounds that train on references                             | reference  |
| right repair    | the model's second turn after feedback                                   | correction |

The rejected answer is one of the model's own wrong ones. Where there is none (every own answer is right, none holds a query, or the model
was not asked), the row has no rejected side and teaches by likelihood alone: the prompt stays in the training, as solved prompts must, or
they are forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.data.rollouts import grouped
from prefkit.tasks.base import Example, Task
from prefkit.verify.extract import extract_sql
from prefkit.verify.trust import together

Row = dict[str, Any]
STRATEGIES = ("max_margin", "nearest", "random", "all_capped")


@dataclass(frozen=True, slots=True)
class Settings:
    """How pairs are made. `max_tokens`: longer rows (prompt and answer) are dropped, never cut; `end_id`: the token that ends an answer."""

    strategy: str
    per_prompt: int
    max_tokens: int
    end_id: int
    seed: int


Tokenize = Callable[[list[Row]], list[Row]]
"""{"messages", "answers"} -> {"prompt_ids", "answer_ids"}: token ids, each answer with its end token."""


def reference_pairs(
    task: Task,
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    settings: Settings,
    tokenize: Tokenize,
    corrections: Sequence[Row] = (),
) -> tuple[list[Row], Row]:
    """The reference of each question over the model's own wrong answer to it. Returns rows and counts.

    A base model wraps its query in prose that often does not end in time. The rejected side is the query itself, as the verifier took it
    out of the answer: the contrast is between queries, not between manners of speech.
    """
    groups = grouped(rollouts, verdicts)
    messages = [task.prompt(example) for example in examples]
    mistakes = [_mistake(groups.get(example.id, [])) for example in examples]
    answers = [[example.golds[0], *(mistake[1:] if mistake else ())] for example, mistake in zip(examples, mistakes, strict=True)]
    tokens = tokenize([{"messages": asked, "answers": texts} for asked, texts in zip(messages, answers, strict=True)])
    rows = []
    for example, asked, mistake, ids in zip(examples, messages, mistakes, tokens, strict=True):
        chosen = _Side(example.golds[0], ids["answer_ids"][0])
        chosen.source = "reference"
        rejected = None
        if mistake:
            (row, verdict), query = mistake
            rejected = _Side(query, ids["answer_ids"][1], row["id"], verdict)
        rows.append(_pair(example, asked, ids["prompt_ids"], chosen, rejected))
    return _checked([*rows, *corrections], settings, Counter())


def _mistake(group: Sequence[tuple[Row, Row]]) -> tuple[tuple[Row, Row], str] | None:
    """The first wrong answer that holds a query, and the query."""
    for row, verdict in group:
        if verdict["score"] == 0 and (query := extract_sql(row["completion"])):
            return (row, verdict), query
    return None


def own_pairs(
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    corrections: Sequence[Row],
    settings: Settings,
) -> tuple[list[Row], Row]:
    """Own right answers over own wrong ones; no gold is ever part of a row. `corrections` are rows of `correction_pair`."""
    groups, counts = grouped(rollouts, verdicts), Counter(prompts_all_right=0)
    rows: list[Row] = []
    for example in examples:
        group = groups[example.id]
        right, wrong = (_unique(group, score) for score in (1, 0))
        sides: list[tuple[_Side, _Side | None]] = []
        if right and wrong:
            sides += _matched(right, wrong, settings, example.id)
        elif right:
            sides.append((right[0], None))
            counts["prompts_all_right"] += 1
        else:
            counts["prompts_none_right"] += 1
        rows += [_pair(example, group[0][0]["messages"], group[0][0]["prompt_ids"], *both) for both in sides]
    rows += corrections
    return _checked(rows, settings, counts)


class _Side:
    """One side of a pair: its text, token ids (with the end token) and receipt."""

    __slots__ = ("ids", "logprob", "rollout", "source", "text", "verdict")

    def __init__(self, text: str, ids: list[int], rollout: str | None = None, verdict: Row | None = None, logprob: float = 0.0):
        self.text, self.ids, self.rollout, self.verdict, self.logprob = text, ids, rollout, verdict, logprob
        self.source = "model"


def _unique(group: Sequence[tuple[Row, Row]], score: int) -> list[_Side]:
    """Distinct finished answers of one score, the ones the model gave most often first."""
    times = Counter(row["completion"] for row, _ in group)
    sides: dict[str, _Side] = {}
    for row, verdict in group:
        if verdict["score"] == score and row["ended"] and row["completion"] not in sides:
            logprob = sum(row["logprobs"])
            sides[row["completion"]] = _Side(row["completion"], row["completion_ids"], row["id"], verdict, logprob)
    return sorted(sides.values(), key=lambda side: (-times[side.text], side.rollout))


def _matched(right: list[_Side], wrong: list[_Side], settings: Settings, name: str) -> list[tuple[_Side, _Side]]:
    """At most `per_prompt` pairs by the strategy.

    max_margin: the right answers the model believes least in against the wrong ones it believes most in (where it is most mistaken);
    nearest: the pairs with the smallest edit distance; random: drawn with the seed; all_capped: in the order of frequency.
    """
    from rapidfuzz.distance import Levenshtein

    every = [(chosen, rejected) for chosen in right for rejected in wrong]
    if settings.strategy == "random":
        random.Random(f"{settings.seed}/{name}").shuffle(every)
    elif settings.strategy == "nearest":
        every.sort(key=lambda pair: Levenshtein.distance(pair[0].text, pair[1].text))
    elif settings.strategy == "max_margin":
        every.sort(key=lambda pair: pair[0].logprob - pair[1].logprob)
    # A second pair should say something new: other right answers come before the same one again.
    taken: list[tuple[_Side, _Side]] = []
    used: Counter[str] = Counter()
    while every and len(taken) < settings.per_prompt:
        least = min(used[chosen.text] + used[rejected.text] for chosen, rejected in every)
        index = next(i for i, (chosen, rejected) in enumerate(every) if used[chosen.text] + used[rejected.text] == least)
        chosen, rejected = every.pop(index)
        used[chosen.text] += 1
        used[rejected.text] += 1
        taken.append((chosen, rejected))
    return taken


def _pair(example: Example, messages: list, prompt_ids: list[int], chosen: _Side, rejected: _Side | None) -> Row:
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
        "chosen_rollout": chosen.rollout,
        "rejected_rollout": rejected.rollout if rejected else None,
        "chosen_verdict": chosen.verdict["key"] if chosen.verdict else None,
        "rejected_verdict": rejected.verdict["key"] if rejected and rejected.verdict else None,
        "rejected_status": rejected.verdict["status"] if rejected and rejected.verdict else None,
        "trust": together(side.verdict["trust"] for side in (chosen, rejected) if side and side.verdict),
    }


def correction_pair(example: Example, right: tuple[Row, Row | None], wrong: tuple[Row, Row] | None) -> Row:
    """A repair that passed over one that did not; the prompt is the failed turn with its feedback.

    `right` without an id is the gold. Without `wrong` the row teaches by likelihood alone.
    """
    chosen, rejected = (one and _Side(one[0]["completion"], one[0]["completion_ids"], one[0]["id"], one[1]) for one in (right, wrong))
    assert chosen is not None
    chosen.source = "correction" if right[0]["id"] else "reference"
    return _pair(example, right[0]["messages"], right[0]["prompt_ids"], chosen, rejected)


def _checked(rows: list[Row], settings: Settings, counts: Counter) -> tuple[list[Row], Row]:
    """Drop what would train wrongly, each kind counted: identical sides, over-long rows, not exactly one end token, duplicates."""
    kept: list[Row] = []
    seen = set()
    for row in rows:
        answers = [ids for ids in (row["chosen_ids"], row["rejected_ids"]) if ids is not None]
        key = tuple(map(tuple, (row["prompt_ids"], *answers)))
        if row["chosen_ids"] == row["rejected_ids"]:
            counts["dropped_identical"] += 1
        elif len(row["prompt_ids"]) + max(map(len, answers)) > settings.max_tokens:
            counts["dropped_long"] += 1
        elif not all(ids.count(settings.end_id) == 1 and ids[-1] == settings.end_id for ids in answers):
            counts["dropped_end_token"] += 1
        elif key in seen:
            counts["dropped_duplicate"] += 1
        else:
            seen.add(key)
            kept.append(row)
    sources = Counter(row["source"] for row in kept)
    pairs = [row for row in kept if row["rejected_ids"] is not None]
    longer = sum(len(row["chosen_ids"]) > len(row["rejected_ids"]) for row in pairs)
    return kept, {
        "rows": len(kept),
        "pairs": len(pairs),
        **{source: sources.get(source, 0) for source in ("model", "reference", "correction")},
        "chosen_longer_share": round(longer / len(pairs), 3) if pairs else None,
        **dict(counts),
    }
