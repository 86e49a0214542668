"""Which of several models to begin with, from their readiness figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefkit.statistics import Interval, paired_interval, pass_at_k

Row = dict[str, Any]


def choose(results: Sequence[Row]) -> tuple[str | None, str]:
    """(name, why) of the model to begin with, or (None, why none).

    Models that a rule speaks against are out, and answers from elsewhere have no model to train. Of the rest the one with the highest
    pass@K leads: what a model can reach in K tries is what training can make it reach in one. Among those that are not shown to be worse
    than the leader on the same questions, the smallest is taken. Where no model has a right answer, the likelihoods of golds decide.

    Args: results: for each model its figures with `name`, `kind` (model, adapter, answers) and `by_question` (id -> [answers, right]).
    """
    trainable = [result for result in results if result["kind"] != "answers"]
    fit = [result for result in trainable if result["verdict"] not in ("choose a stronger model", "fix the data")]
    if not fit:
        return None, "none of them: see what is said of each."
    if any(result["right"] for result in fit):
        return _by_answers(fit)
    return _by_likelihood(fit)


def _by_answers(fit: list[Row]) -> tuple[str, str]:
    k = min(result["k"] for result in fit if result["k"])
    leader = max(fit, key=lambda result: (_pass(result, k), result["pass_at_1"]))
    equal = [result for result in fit if result is leader or _difference(result, leader, k).sign < 1]
    chosen = min(equal, key=lambda result: (result.get("parameters") or float("inf"), -_pass(result, k)))
    said = f"at least one of {k} answers is right for {100 * _pass(chosen, k):.1f} % of its questions"
    if len(fit) == 1:
        return chosen["name"], f"{said}; it is the only one that nothing speaks against."
    if chosen is leader and len(equal) == 1:
        return chosen["name"], f"{said}, more than for any other, by an interval above 0."
    if chosen is leader:
        return chosen["name"], f"{said}, the most; {_names(equal, chosen)} may be as good, and is not smaller."
    best = f"{100 * _pass(leader, k):.1f} % of {leader['name']}"
    return chosen["name"], f"{said}; the {best} are not shown to be more on these questions, and it is smaller."


def _by_likelihood(fit: list[Row]) -> tuple[str | None, str]:
    known = [result for result in fit if (result.get("gold_match") or {}).get("n")]
    if not known:
        return None, "none has a right answer, and no likelihoods were measured: nothing tells them apart."
    leader = max(known, key=lambda result: result["gold_match"]["mean"])
    equal = [result for result in known if result["gold_match"]["high"] >= leader["gold_match"]["low"]]
    chosen = min(equal, key=lambda result: result["gold_nats"])
    return chosen["name"], (
        f"none has a right answer yet. It tells which query belongs to which question in {100 * chosen['gold_match']['mean']:.0f} % of "
        f"pairs, and a character of a right query costs it {chosen['gold_nats']:.2f} nats, the least of those that do so about as well."
    )


def _pass(result: Row, k: int) -> float:
    values = _values(result, k)
    return sum(values.values()) / len(values) if values else 0.0


def _values(result: Row, k: int) -> dict[str, float]:
    return {name: pass_at_k(answers, right, k) for name, (answers, right) in result["by_question"].items() if answers >= k}


def _difference(result: Row, leader: Row, k: int) -> Interval:
    """pass@k of the leader minus that of another, over the questions that both were asked."""
    own, best = _values(result, k), _values(leader, k)
    shared = sorted(own.keys() & best.keys())
    return paired_interval([own[name] for name in shared], [best[name] for name in shared])


def _names(equal: list[Row], chosen: Row) -> str:
    return ", ".join(result["name"] for result in equal if result is not chosen)
