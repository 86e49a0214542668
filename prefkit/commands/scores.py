"""The scores of an evaluation as tables for the terminal: policies side by side, greedy and sampled, with intervals and by level."""

from __future__ import annotations

from typing import Any

from prefkit.commands.terminal import console, paragraph, shown, table

Row = dict[str, Any]


def show(evaluation: Row, ledger: Row) -> None:
    """Print a table for each split, one of the levels below it, and the sentences of the ledger."""
    for split, policies in evaluation["scores"].items():
        size = evaluation["splits"][split]
        print(f"{split}: {size['questions']} of {size['of']} questions")
        _show_policies(policies, f"{evaluation['k']} samples at T = {evaluation['temperature']:g}")
        _show_levels(policies)
        unscored = sum(scores["unscored"] for scores in policies.values())
        if unscored:
            print(f"{unscored} answers could not be judged and count neither way.\n")
    trust = evaluation.get("trust") or {}
    if trust.get("model"):
        print(f"{trust['model']} of {sum(trust.values())} scores are a model's opinion (the judge's), not the result of a run.\n")
    if len(evaluation["policies"]) > 1:
        headline = ledger["headline"]
        paragraph(headline["sentence"])
        for part in headline.get("splits", {}).values():
            if part["sentence"] not in headline["sentence"]:
                paragraph(part["sentence"])


def _show_policies(policies: Row, samples: str) -> None:
    from prefkit.evaluate.words import policy_words

    rows = [
        [shown(policy_words(name)), *(score_words(scores[measure]) for measure in ("greedy", "samples"))]
        for name, scores in policies.items()
    ]
    console().print(table(["", "first answer (greedy)", samples], rows, right=(1, 2)))
    print()


def _show_levels(policies: Row) -> None:
    """Greedy over sampled accuracy of each level, where there are several."""
    from prefkit.evaluate.words import percent, policy_words

    counts = {level: group["greedy"]["n"] for scores in policies.values() for level, group in scores["by_level"].items()}
    levels = sorted(counts)
    if len(levels) < 2:
        return

    def both(scores: Row, level: str) -> str:
        group = scores["by_level"].get(level)
        return "\n".join(percent(group[measure]["mean"]) for measure in ("greedy", "samples")) if group else "–"

    rows = [[shown(policy_words(name)), *(both(scores, level) for level in levels)] for name, scores in policies.items()]
    heads = ["greedy,\nthen samples", *(f"level {level}\nn = {counts[level]}" for level in levels)]
    console().print(table(heads, rows, right=range(1, len(heads))))
    print()


def score_words(score: Row) -> str:
    """A share with its 95 % interval: 51.7 % (43.0 to 60.2 %)."""
    from prefkit.evaluate.words import interval_words, percent

    return percent(score["mean"]) if score["mean"] is None else f"{percent(score['mean'])} ({interval_words(score, '%')})"
