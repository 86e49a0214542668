"""From verified answers to ``evaluation.json`` (how good is each policy) and ``ledger.json`` (what did each step add, and at what cost).

The unit is the question. Greedy accuracy is the share of questions whose first answer is right; sampled accuracy is the mean over questions
of the share of right samples. The two always stand side by side: training that sharpens a policy moves the second and not the first.
Answers without a score (the verifier could not run) are left out and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from prefkit.errors import DataError
from prefkit.evaluate.failures import failure_counts
from prefkit.evaluate.headline import headline
from prefkit.statistics import Interval, mcnemar_p, mean_interval, paired_interval, sign_flip_p, wilson
from prefkit.verify.trust import counts as trust_counts
from prefkit.verify.trust import require_one_kind

POLICY_ORDER = ("earlier", "base", "references", "own_pairs", "calibrated")
SPLIT_ORDER = ("test", "unseen")
MEASURES = ("greedy", "samples")
Answer = Mapping[str, Any]


@dataclass(slots=True)
class QuestionScores:
    """What one policy did on one question: the greedy score (None: not scored) and the scores of its samples."""

    level: str
    database: str
    greedy: float | None = None
    samples: list[float] = field(default_factory=list)

    def value(self, measure: str) -> float | None:
        """The question's value for ``greedy``, ``samples`` (share right) or ``pass_at_k`` (1 where any is right); None without a score."""
        if measure == "greedy":
            return self.greedy
        if not self.samples:
            return None
        right = sum(self.samples)
        return float(right > 0) if measure == "pass_at_k" else right / len(self.samples)


def evaluation(answers: Sequence[Answer], totals: Mapping[str, int], k: int, temperature: float, mix: bool = False) -> dict[str, Any]:
    """Scores of every policy on every split, with 95 % intervals, by level and by database, and the kinds of its failures.

    Args:
        answers: rows as in ``evaluation/answers.parquet``: policy, split, example_id, database, level, kind, k, status, score, reason …
        totals: how many questions each split has in all; evaluation may take a part.
        k: samples a question.
        temperature: of the samples.
        mix: whether executed verdicts and a model's opinions may stand in one figure.

    Raises:
        DataError: where they do and may not, or a policy has two greedy answers, or the same sample twice, for one question.
    """
    trust = trust_counts(answers)
    require_one_kind(trust, mix, "the evaluation")
    table = by_question(answers)
    splits, policies = ordered_splits(answers), ordered_policies(answers)
    groups: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[answer["split"], answer["policy"]].append(answer)
    scores: dict[str, dict[str, Any]] = {split: {} for split in splits}
    for split in splits:
        for policy in policies:
            if (split, policy) in groups:
                scores[split][policy] = _policy_scores(table[split, policy], groups[split, policy])
    return {
        "splits": {split: _split_size(table, split, policies, totals) for split in splits},
        "k": k,
        "temperature": temperature,
        "policies": policies,
        "trust": trust,
        "scores": scores,
    }


def ledger(answers: Sequence[Answer], costs: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """What each step added to the one before it, and everything together, paired over questions, with its cost.

    Args:
        answers: as for :func:`evaluation`.
        costs: for each policy what it took to make it from the one before: ``seconds``, ``tokens``, ``verifier_calls``.

    Returns:
        ``entries`` in the order split, step, measure, and a ``headline`` (see :mod:`prefkit.evaluate.headline`).
    """
    table, policies = by_question(answers), ordered_policies(answers)
    steps = [(after, before, after) for before, after in pairwise(policies)]
    if len(policies) > 1:
        steps.append(("total", policies[0], policies[-1]))
    entries = []
    for split in ordered_splits(answers):
        for step, before, after in steps:
            if (split, before) not in table or (split, after) not in table:
                continue
            cost = _cost(costs, policies[1:] if step == "total" else [after])
            for measure in MEASURES:
                compared = compare(table[split, before], table[split, after], measure)
                entries.append({"step": step, "from": before, "to": after, "split": split, "measure": measure, **compared, "cost": cost})
    return {"entries": entries, "headline": headline(entries)}


def compare(before: Mapping[str, QuestionScores], after: Mapping[str, QuestionScores], measure: str) -> dict[str, Any]:
    """The paired gain of one policy over another on the questions that both have a score for.

    Returns:
        ``before`` and ``after`` (means over the same questions), ``gain`` with ``p``, ``won`` and ``lost``: questions whose greedy answer
        became right or wrong, or whose share of right samples rose or fell.
    """
    pairs = []
    for example_id in sorted(before.keys() & after.keys()):
        old, new = before[example_id].value(measure), after[example_id].value(measure)
        if old is not None and new is not None:
            pairs.append((old, new))
    olds, news = [old for old, _ in pairs], [new for _, new in pairs]
    won, lost = sum(new > old for old, new in pairs), sum(new < old for old, new in pairs)
    gain = paired_interval(olds, news)
    p = mcnemar_p(won, lost) if measure == "greedy" else sign_flip_p([new - old for old, new in pairs])
    n = len(pairs)
    return {
        "before": sum(olds) / n if n else None,
        "after": sum(news) / n if n else None,
        "gain": {**gain.to_dict(), "p": p},
        "won": won,
        "lost": lost,
    }


def by_question(answers: Iterable[Answer]) -> dict[tuple[str, str], dict[str, QuestionScores]]:
    """The scores by (split, policy) and then by question."""
    table: dict[tuple[str, str], dict[str, QuestionScores]] = defaultdict(dict)
    seen: set[tuple[Any, ...]] = set()
    for answer in answers:
        sample = answer["k"] if answer["kind"] == "sample" else None
        key = (answer["split"], answer["policy"], answer["example_id"], answer["kind"], sample)
        if key in seen:
            raise DataError(
                f"evaluation: policy {answer['policy']!r} has two {answer['kind']} answers (k={answer['k']}) for question "
                f"{answer['example_id']!r} of split {answer['split']!r}; each counts once. Delete evaluation/answers.parquet and evaluate "
                "again."
            )
        seen.add(key)
        questions = table[answer["split"], answer["policy"]]
        scores = questions.setdefault(answer["example_id"], QuestionScores(str(answer["level"]), str(answer["database"])))
        if answer["score"] is None or answer["score"] != answer["score"]:  # Parquet readers turn a missing score into None or NaN
            continue
        if answer["kind"] == "greedy":
            scores.greedy = float(answer["score"])
        else:
            scores.samples.append(float(answer["score"]))
    return dict(table)


def ordered_policies(answers: Iterable[Answer]) -> list[str]:
    """The policies that have answers, in training order; unknown ones last, by name."""
    return _ordered({answer["policy"] for answer in answers}, POLICY_ORDER)


def ordered_splits(answers: Iterable[Answer]) -> list[str]:
    """The splits that have answers: test, unseen, then others by name."""
    return _ordered({answer["split"] for answer in answers}, SPLIT_ORDER)


def _policy_scores(questions: Mapping[str, QuestionScores], answers: Sequence[Answer]) -> dict[str, Any]:
    levels: dict[str, list[QuestionScores]] = defaultdict(list)
    databases: dict[str, list[QuestionScores]] = defaultdict(list)
    for scores in questions.values():
        levels[scores.level].append(scores)
        databases[scores.database].append(scores)
    greedy = [answer for answer in answers if answer["kind"] == "greedy"]
    unscored = sum(answer["score"] is None or answer["score"] != answer["score"] for answer in answers)
    return {
        **{measure: _interval(questions.values(), measure).to_dict() for measure in (*MEASURES, "pass_at_k")},
        "by_level": {level: _both(levels[level]) for level in sorted(levels, key=_natural)},
        "by_database": {name: _both(databases[name]) for name in sorted(databases)},
        "failures": failure_counts(greedy),
        "unscored": int(unscored),
    }


def _both(questions: Sequence[QuestionScores]) -> dict[str, Any]:
    return {measure: _interval(questions, measure).to_dict() for measure in MEASURES}


def _interval(questions: Iterable[QuestionScores], measure: str) -> Interval:
    values = [value for question in questions if (value := question.value(measure)) is not None]
    if measure == "samples":
        return mean_interval(values)
    return wilson(int(sum(values)), len(values))


def _split_size(
    table: Mapping[tuple[str, str], Mapping[str, QuestionScores]], split: str, policies: Sequence[str], totals: Mapping[str, int]
) -> dict[str, int]:
    asked = {example_id for policy in policies for example_id in table.get((split, policy), {})}
    return {"questions": len(asked), "of": max(int(totals.get(split, 0)), len(asked))}


def _cost(costs: Mapping[str, Mapping[str, float]], policies: Sequence[str]) -> dict[str, float]:
    named = [costs[policy] for policy in policies if policy in costs]
    keys = [key for key in ("seconds", "tokens", "verifier_calls") if any(key in cost for cost in named)]
    return {key: sum(cost.get(key, 0) for cost in named) for key in keys}


def _ordered(names: set[str], order: Sequence[str]) -> list[str]:
    return [name for name in order if name in names] + sorted(names - set(order))


def _natural(level: str) -> tuple[int, float, str]:
    return (0, float(level), level) if level.replace(".", "", 1).isdigit() else (1, 0.0, level)
