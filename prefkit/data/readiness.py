"""Is the task verifiable, and has this model anything to learn from? Figures and a verdict in words, before any training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefkit.data.rollouts import figures, grouped
from prefkit.tasks.base import Example, Task
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]

READY_SHARE = 0.3
"""Share of mixed groups from which online learning has signal in most steps."""
FEWEST_QUESTIONS = 50
"""Fewer test questions than this cannot show a gain of 20 points."""


def gold_faults(task: Task, examples: Sequence[Example], scheduler: Scheduler) -> list[str]:
    """Every question whose gold does not pass its own verifier, with the reason."""
    checks = [task.check(example, example.golds[0], id=str(number)) for number, example in enumerate(examples)]
    return [
        f"{examples[int(verdict.id)].id}: {verdict.status}: {verdict.reason}"
        for verdict in scheduler.verify(checks)
        if verdict.status != "PASS"
    ]


def planted_passes(task: Task, examples: Sequence[Example], scheduler: Scheduler) -> tuple[int, int]:
    """Of answers that must not pass (none, a constant, another question's gold), how many do: (passed, planted).

    Another question's gold may be right for this one by chance; a share of a few per cent is no fault.
    """
    checks = []
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
    return sum(verdict.score == 1 for verdict in scheduler.verify(checks)), len(checks)


def readiness(
    rollouts: Sequence[Row], verdicts: Sequence[Row], gold_faults: Sequence[str], questions: dict[str, int], golds_checked: int
) -> Row:
    """The figures of a readiness check and its verdict: fix the data / too few questions / warm start first / ready."""
    counts = figures(rollouts, verdicts)
    groups = grouped(rollouts, verdicts)
    prompts, answers = max(counts["prompts"], 1), max(counts["answers"], 1)
    no_query = sum(verdict["reason"].startswith("no SQL") for verdict in verdicts)
    summary = {
        **counts,
        "pass_at_1": counts["right"] / answers,
        "pass_at_k": counts["prompts_with_right"] / prompts,
        "k": max((len(group) for group in groups.values()), default=0),
        "all_wrong": (prompts - counts["prompts_with_right"]) / prompts,
        "mixed_share": counts["mixed"] / prompts,
        "all_right": (counts["prompts_with_right"] - counts["mixed"]) / prompts,
        "no_query_share": no_query / answers,
        "longest_prompt": max((len(row["prompt_ids"]) for row in rollouts), default=0),
        "golds_checked": golds_checked,
        "gold_faults": len(gold_faults),
        "first_gold_faults": list(gold_faults[:5]),
        "questions": questions,
    }
    summary["verdict"], summary["advice"] = _verdict(summary)
    return summary


def _verdict(summary: Row) -> tuple[str, str]:
    if summary["gold_faults"]:
        return "fix the data", (
            f"{summary['gold_faults']} of {summary['golds_checked']} golds do not pass their own verifier "
            f"(first: {summary['first_gold_faults'][0]}). A wrong gold teaches and measures the wrong thing: mend these questions first."
        )
    held_out = summary["questions"].get("test", 0) + summary["questions"].get("unseen", 0)
    if held_out < FEWEST_QUESTIONS:
        return "too few questions", (
            f"{held_out} held-out questions cannot show a gain of less than about {_smallest(held_out)} points; "
            f"{FEWEST_QUESTIONS} or more are wanted."
        )
    if summary["mixed_share"] < READY_SHARE:
        return "warm start first", (
            f"only {summary['mixed_share']:.0%} of prompts have both right and wrong answers, so online steps would see no signal "
            "in most groups. Begin with references (the recipe does)."
        )
    return "ready", (
        f"{summary['mixed_share']:.0%} of prompts have both right and wrong answers: own answers and online steps have signal "
        "from the start."
    )


def _smallest(n: int) -> str:
    # Two-sided 95 % interval of a share of one half.
    return f"{round(196 * (0.25 / n) ** 0.5)}" if n else "100"
