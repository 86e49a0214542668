"""Preference pairs from verified answers: a right one over a wrong one of the same prompt, each row with its receipt.

| chosen          | from                                                                     | source     |
|-----------------|--------------------------------------------------------------------------|------------|
| right answer    | the model's own answers to the prompt                                    | model      |
| reference       | the gold, in rounds that train on references                             | reference  |
| right repair    | the model's second turn after feedback                                   | correction |

The rejected answer is one of the model's own wrong ones. Where there is none (every own answer is right, or none holds a query), it is the
right answer to another question on the same database, executed and found wrong for this one (rejected_from = "neighbour"): the prompt stays
in the training, as solved prompts must, or they are forgotten.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.data.rollouts import grouped
from prefkit.tasks.base import Example, Task
from prefkit.verify.extract import extract_sql

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


Judge = Callable[[list[tuple[Example, str]]], list[Row]]
"""Verdict rows for (example, answer) pairs."""
Tokenize = Callable[[list[Row]], list[Row]]
"""{"messages", "answers"} -> {"prompt_ids", "answer_ids"}: token ids, each answer with its end token."""


def reference_pairs(
    task: Task,
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    settings: Settings,
    judge: Judge,
    tokenize: Tokenize,
) -> tuple[list[Row], Row]:
    """The reference of each question over the model's own wrong answer to it. Returns rows and counts.

    A base model wraps its query in prose that often does not end in time. The rejected side is the query itself, as the verifier took it
    out of the answer: the contrast is between queries, not between manners of speech. Where there is none (or the model was not asked), the
    reference of a neighbour question stands in, executed and found wrong for this one, so that no reference is lost to the training.
    """
    groups, counts = grouped(rollouts, verdicts), Counter()
    wanted: list[Row] = []
    alone: list[Example] = []
    for example in examples:
        group = groups.get(example.id, [])
        wrong = [(row, verdict, extract_sql(row["completion"])) for row, verdict in group if verdict["score"] == 0]
        found = next((one for one in wrong if one[2]), None)
        if found is None:
            alone.append(example)
            continue
        row, verdict, query = found
        wanted.append({"example": example, "rejected": query, "rollout": row["id"], "verdict": verdict, "from": "model"})
    wanted += _neighbours(alone, examples, settings, judge, counts)
    messages = {one["example"].id: task.prompt(one["example"]) for one in wanted}
    tokens = tokenize([{"messages": messages[one["example"].id], "answers": [one["example"].golds[0], one["rejected"]]} for one in wanted])
    rows = []
    for one, ids in zip(wanted, tokens, strict=True):
        example = one["example"]
        chosen = _Side(example.golds[0], ids["answer_ids"][0])
        chosen.source = "reference"
        rejected = _Side(one["rejected"], ids["answer_ids"][1], one["rollout"], one["verdict"])
        rows.append(_pair(example, messages[example.id], ids["prompt_ids"], chosen, rejected, rejected_from=one["from"]))
    return _checked(rows, settings, counts)


def _likest(texts: Sequence[str], text: str) -> str:
    """The text that shares the longest beginning with `text`, then the nearest: a shared beginning is computed once."""
    from rapidfuzz.distance import Levenshtein

    def shared(other: str) -> int:
        return next((i for i, (a, b) in enumerate(zip(other, text, strict=False)) if a != b), min(len(other), len(text)))

    return min(sorted(texts), key=lambda other: (-shared(other), Levenshtein.distance(other, text)))


def _neighbours(alone: list[Example], examples: Sequence[Example], settings: Settings, judge: Judge, counts: Counter) -> list[Row]:
    """For each question of `alone` the most similar reference on its database that is wrong for it."""
    tried = []
    for example in alone:
        others = {other.golds[0] for other in examples if other.database == example.database and other.id != example.id} - set(
            example.golds
        )
        if not others:
            counts["dropped_no_answer"] += 1
            continue
        tried.append((example, _likest(list(others), example.golds[0])))
    rows = []
    for (example, text), verdict in zip(tried, judge(tried), strict=True):
        if verdict["score"] == 0:
            rows.append({"example": example, "rejected": text, "rollout": None, "verdict": verdict, "from": "neighbour"})
        else:
            counts["dropped_neighbour_right"] += 1
    return rows


def own_pairs(
    examples: Sequence[Example],
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    corrections: Sequence[Row],
    settings: Settings,
    judge: Judge,
) -> tuple[list[Row], Row]:
    """Own right answers over own wrong ones; no gold is ever part of a row. `corrections` are rows of `correction_pairs`."""
    groups, counts = grouped(rollouts, verdicts), Counter()
    rows: list[Row] = []
    solved: list[tuple[Example, list[_Side]]] = []
    for example in examples:
        group = groups[example.id]
        right, wrong = (_unique(group, score) for score in (1, 0))
        if right and wrong:
            for chosen, rejected in _matched(right, wrong, settings, example.id):
                rows.append(_pair(example, group[0][0]["messages"], group[0][0]["prompt_ids"], chosen, rejected, rejected_from="model"))
        elif right:
            solved.append((example, right))
        else:
            counts["prompts_none_right"] += 1
    rows += _solved_pairs(solved, groups, settings, judge, counts)
    rows += corrections
    counts["prompts_all_right"] = len(solved)
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


def _solved_pairs(solved: list[tuple[Example, list[_Side]]], groups: dict, settings: Settings, judge: Judge, counts: Counter) -> list[Row]:
    """One pair for each prompt whose answers are all right, against a neighbour's answer that was executed and is wrong here."""
    by_database: dict[str, list[_Side]] = defaultdict(list)
    for example_id in sorted(groups):
        for row, verdict in groups[example_id]:
            if verdict["score"] == 1 and row["ended"]:
                by_database[row["database"]].append(_Side(row["completion"], row["completion_ids"], row["id"], None))
                break
    tried = []
    for example, right in solved:
        own = {side.text for side in right}
        neighbours = [side for side in by_database[example.database] if side.text not in own]
        found = _matched(right[:1], neighbours, settings, example.id)[:1]
        counts["dropped_no_neighbour"] += not found
        tried += [(example, chosen, rejected) for chosen, rejected in found]
    judged = judge([(example, rejected.text) for example, _, rejected in tried])
    rows = []
    for (example, chosen, rejected), verdict in zip(tried, judged, strict=True):
        if verdict["score"] != 0:
            counts["dropped_neighbour_right"] += 1
            continue
        rejected.verdict = verdict
        prompt = groups[example.id][0][0]
        rows.append(_pair(example, prompt["messages"], prompt["prompt_ids"], chosen, rejected, rejected_from="neighbour"))
    return rows


def _pair(example: Example, messages: list, prompt_ids: list[int], chosen: _Side, rejected: _Side, rejected_from: str) -> Row:
    return {
        "id": f"{chosen.rollout or example.id + '/reference'}>{rejected.rollout or 'neighbour'}",
        "example_id": example.id,
        "database": example.database,
        "level": example.level,
        "prompt": messages,
        "chosen": [{"role": "assistant", "content": chosen.text}],
        "rejected": [{"role": "assistant", "content": rejected.text}],
        "prompt_ids": prompt_ids,
        "chosen_ids": chosen.ids,
        "rejected_ids": rejected.ids,
        "source": chosen.source,
        "rejected_from": rejected_from,
        "chosen_rollout": chosen.rollout,
        "rejected_rollout": rejected.rollout,
        "chosen_verdict": chosen.verdict["key"] if chosen.verdict else None,
        "rejected_verdict": rejected.verdict["key"] if rejected.verdict else None,
        "rejected_status": rejected.verdict["status"] if rejected.verdict else None,
    }


def correction_pair(example: Example, right: tuple[Row, Row], wrong: tuple[Row, Row]) -> Row:
    """A repair that passed over one that did not; the prompt is the failed turn with its feedback."""
    sides = [_Side(row["completion"], row["completion_ids"], row["id"], verdict) for row, verdict in (right, wrong)]
    sides[0].source = "correction"
    return _pair(example, right[0]["messages"], right[0]["prompt_ids"], *sides, rejected_from="model")


def _checked(rows: list[Row], settings: Settings, counts: Counter) -> tuple[list[Row], Row]:
    """Drop what would train wrongly, each kind counted: identical sides, over-long rows, not exactly one end token, duplicates."""
    kept: list[Row] = []
    seen = set()
    for row in rows:
        key = (tuple(row["prompt_ids"]), tuple(row["chosen_ids"]), tuple(row["rejected_ids"]))
        ends = [ids.count(settings.end_id) == 1 and ids[-1] == settings.end_id for ids in (row["chosen_ids"], row["rejected_ids"])]
        if row["chosen_ids"] == row["rejected_ids"]:
            counts["dropped_identical"] += 1
        elif len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"])) > settings.max_tokens:
            counts["dropped_long"] += 1
        elif not all(ends):
            counts["dropped_end_token"] += 1
        elif key in seen:
            counts["dropped_duplicate"] += 1
        else:
            seen.add(key)
            kept.append(row)
    sources = Counter(row["source"] for row in kept)
    longer = sum(len(row["chosen_ids"]) > len(row["rejected_ids"]) for row in kept)
    return kept, {
        "pairs": len(kept),
        **{source: sources.get(source, 0) for source in ("model", "reference", "correction")},
        "neighbour": sum(row["rejected_from"] == "neighbour" for row in kept),
        "chosen_longer_share": round(longer / len(kept), 3) if kept else None,
        **dict(counts),
    }
