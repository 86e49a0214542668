"""Is the task verifiable, and has this model anything to learn from? The figures; `readiness_verdict` says what they mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from prefkit.data.pass_rates import pass_at, signal_share
from prefkit.data.readiness_verdict import verdict_of
from prefkit.data.rollouts import figures, grouped
from prefkit.tasks.base import Example, Task
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import NO_SQL

Row = dict[str, Any]

KINDS = ("right", "wrong result", "does not run", "does not parse", "not finished", "no query", "not judged")
"""What an answer can be. The last but one, and the two before it, are failures of format; a query that runs and is wrong is not."""
_READS = re.compile(r"\bfrom\b", re.IGNORECASE)


def gold_faults(task: Task, examples: Sequence[Example], scheduler: Scheduler) -> dict[str, str]:
    """The questions whose golds do not all pass their own verifier: id -> status and reason. A gold that reads no table is a fault, too."""
    golds = [(example, gold) for example in examples for gold in example.golds]
    checks = [task.check(example, gold, id=str(number)) for number, (example, gold) in enumerate(golds)]
    faults: dict[str, str] = {}
    for verdict, (example, gold) in zip(scheduler.verify(checks), golds, strict=True):
        if verdict.status != "PASS":
            faults.setdefault(example.id, f"{verdict.status}: {verdict.reason}")
        elif not _READS.search(gold):
            faults.setdefault(example.id, "it reads no table, so the data cannot matter to it")
    return faults


def planted_checks(task: Task, examples: Sequence[Example]) -> list[Any]:
    """Checks of answers that must not pass: none, a constant, and another question's gold.

    Another question's gold may be right for this one by chance; a share of a few per cent is no fault.
    """
    checks: list[Any] = []
    for number, example in enumerate(examples):
        other = next(
            (
                one
                for one in (*examples[number + 1 :], *examples[:number])
                if one.database == example.database and one.golds != example.golds
            ),
            None,
        )
        for answer in ("", "SELECT 0", *((other.golds[0],) if other else ())):
            checks.append(task.check(example, answer, id=str(len(checks))))
    return checks


def planted_passes(task: Task, examples: Sequence[Example], scheduler: Scheduler) -> tuple[int, int]:
    """Of answers that must not pass, how many do: (passed, planted)."""
    checks = planted_checks(task, examples)
    return sum(verdict.score == 1 for verdict in scheduler.verify(checks)), len(checks)


def disagreements(checks: Sequence[Any], first: Scheduler, second: Scheduler) -> list[str]:
    """What two schedulers judge differently, as they do where a query's result is not the same each time. They must share no cache."""
    return [
        f"{one.status}: {one.reason}, then {other.status}: {other.reason}"
        for one, other in zip(first.verify(checks), second.verify(checks), strict=True)
        if (one.status, one.reason) != (other.status, other.reason)
    ]


def readiness(
    rollouts: Sequence[Row],
    verdicts: Sequence[Row],
    gold_faults: dict[str, str],
    questions: dict[str, int],
    golds_checked: int,
    group: int,
) -> Row:
    """The figures of a readiness check and its verdict in words (`verdict`, `advice`). `group`: answers of one group in online training."""
    summary = {**answer_figures(rollouts, verdicts, group), **gold_figures(gold_faults, questions, golds_checked)}
    summary["verdict"], summary["advice"] = verdict_of(summary)
    return summary


def gold_figures(faults: dict[str, str], questions: dict[str, int], golds_checked: int) -> Row:
    """What the check of the golds came to; the first faults by name."""
    return {
        "golds_checked": golds_checked,
        "gold_faults": len(faults),
        "first_gold_faults": [f"{name}: {fault}" for name, fault in list(faults.items())[:5]],
        "questions": questions,
    }


def answer_figures(rollouts: Sequence[Row], verdicts: Sequence[Row], group: int) -> Row:
    """What a model can do, from a few answers of its own to each question. Answers that could not be judged count as wrong here.

    pass_at: k -> pass@k, for 1, 2, 4 … and the fewest answers that a question has (`k`). signal: the expected share of groups of `group`
    answers with right and wrong ones. by_question: id -> [answers,
    right ones]. kinds: how many answers are what (see KINDS). same_answer_share: of the commonest text.
    """
    counts = figures(rollouts, verdicts)
    groups = {name: [verdict["score"] == 1 for _, verdict in answered] for name, answered in grouped(rollouts, verdicts).items()}
    by_question = [(len(rights), sum(rights)) for rights in groups.values()]
    prompts, answers = max(counts["prompts"], 1), max(counts["answers"], 1)
    k = min((answers for answers, _ in by_question), default=0)
    kinds = answer_kinds(rollouts, verdicts)
    texts = Counter(row["completion"].strip() for row in rollouts)
    pass_at_1, pass_at_k = (pass_at(by_question, size) if k else pass_at([], 1) for size in (1, k))
    signal = signal_share(by_question, group)
    return {
        **counts,
        "k": k,
        "pass_at_1": pass_at_1.mean or 0.0,
        "pass_at_k": pass_at_k.mean or 0.0,
        "by_question": {name: [len(rights), sum(rights)] for name, rights in groups.items()},
        "pass_at": {str(size): pass_at(by_question, size).to_dict() for size in _sizes(k)},
        "all_wrong": (prompts - counts["prompts_with_right"]) / prompts if by_question else 0.0,
        "mixed_share": counts["mixed"] / prompts,
        "all_right": (counts["prompts_with_right"] - counts["mixed"]) / prompts,
        "kinds": {kind: kinds[kind] for kind in KINDS},
        "no_query_share": kinds["no query"] / answers,
        "same_answer_share": max(texts.values(), default=0) / answers,
        "longest_prompt": max((len(row["prompt_ids"]) for row in rollouts), default=0),
        "group": group,
        "signal": signal.to_dict(),
        "signal_share": signal.mean or 0.0,
    }


def answer_kinds(rollouts: Iterable[Row], verdicts: Iterable[Row]) -> Counter[str]:
    """How many answers are of each kind (see KINDS). An answer is one kind: what is cut off before it has a query has no query."""
    return Counter(_kind(row, verdict) for row, verdict in zip(rollouts, verdicts, strict=True))


def _kind(row: Row, verdict: Row) -> str:
    reason = verdict["reason"]
    if verdict["score"] is None:
        return "not judged"
    if verdict["score"] == 1:
        return "right"
    if reason.startswith((NO_SQL, "empty query")):
        return "no query"
    if not row["ended"]:
        return "not finished"
    if reason.lower().startswith(("syntax error", "parser error")):
        return "does not parse"
    return "wrong result" if verdict["status"] == "WRONG" else "does not run"


def _sizes(k: int) -> list[int]:
    """1, 2, 4 … below k, and k."""
    return [*(2**power for power in range(k.bit_length()) if 2**power < k), *([k] if k else [])]
