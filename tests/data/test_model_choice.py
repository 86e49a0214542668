"""Which model to begin with: the reasons that count, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from prefkit.data.model_choice import choose

Row = dict[str, Any]


def result(name: str, rights: list[int], parameters: float = 1e8, verdict: str = "ready", kind: str = "model", **more: Any) -> Row:
    """Figures of a model that had `rights` of 4 answers to each of its questions right."""
    by_question = {f"q{number}": [4, right] for number, right in enumerate(rights)}
    return {
        "name": name, "kind": kind, "verdict": verdict, "k": 4, "right": sum(rights), "by_question": by_question, "parameters": parameters,
        "pass_at_1": sum(rights) / (4 * len(rights)), **more,
    }  # fmt: skip


def likelihood(mean: float, half: float, nats: float) -> Row:
    return {"gold_match": {"mean": mean, "low": mean - half, "high": mean + half, "n": 40}, "gold_nats": nats}


GOOD, FAIR, NONE = [4, 2, 1, 3] * 10, [1, 0, 0, 0] * 10, [0] * 40
NEAR = [*GOOD[:-1], 0]


@pytest.mark.parametrize(
    ("results", "chosen", "why"),
    [
        # Shown to be better, though larger.
        ([result("small", FAIR, 1e8), result("large", GOOD, 7e9)], "large", r"100.0 % of its questions, more than for any other"),
        # Not shown to be better: the smaller one.
        (
            [result("small", NEAR, 1e8), result("large", GOOD, 7e9)],
            "small",
            r"97.5 % .* 100.0 % of large are not shown to be more",
        ),
        ([result("small", GOOD, 1e8), result("large", NEAR, 7e9)], "small", r"the most; large may be as good"),
        # What a rule speaks against is out, whatever it scores; so are answers that have no model.
        ([result("a", GOOD, verdict="choose a stronger model"), result("b", FAIR, verdict="warm start first")], "b", "the only one"),
        ([result("a", GOOD, kind="answers"), result("b", FAIR)], "b", "the only one"),
        ([result("a", GOOD, verdict="choose a stronger model")], None, "none of them"),
        # Nothing right anywhere: the likelihoods decide.
        ([result("a", NONE, **likelihood(0.95, 0.05, 0.9)), result("b", NONE, **likelihood(0.7, 0.1, 0.5))], "a", "95 % of pairs"),
        ([result("a", NONE, **likelihood(0.95, 0.05, 0.9)), result("b", NONE, **likelihood(0.9, 0.1, 0.5))], "b", "0.50 nats"),
        ([result("a", NONE), result("b", NONE)], None, "no likelihoods were measured"),
    ],
)
def test_the_choice_and_its_reason(results: list[Row], chosen: str | None, why: str) -> None:
    import re

    name, said = choose(results)
    assert name == chosen, said
    assert re.search(why, said), said
    assert choose(results[::-1])[0] == chosen


def test_models_are_compared_on_the_questions_that_both_were_asked() -> None:
    """On other questions than the leader's nothing is shown against a smaller model."""
    other = result("small", FAIR, 1e8)
    other["by_question"] = {f"other-{name}": counts for name, counts in other["by_question"].items()}
    assert choose([other, result("large", GOOD, 7e9)])[0] == "small"


def test_k_is_that_of_the_model_with_the_fewest_answers() -> None:
    few = result("few", [1] * 40)
    few |= {"k": 2, "by_question": {f"q{number}": [2, 1] for number in range(40)}}
    name, said = choose([few, result("many", [1] * 40, 7e9)])
    assert name == "few" and "at least one of 2 answers is right for 100.0 %" in said
