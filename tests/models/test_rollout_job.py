"""The job of a model process: which answers come back for a prompt, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prefkit.models import rollout_job

PROMPTS = [{"name": f"stage/{number}", "messages": [{"role": "user", "content": text}]} for number, text in enumerate(("Who?", "Where?"))]


@pytest.fixture
def ask(tiny_folder: Path) -> Iterator[Callable[..., list[list[dict[str, Any]]]]]:
    """The answers of the tiny model to PROMPTS, by prompt."""

    def ask(**how: Any) -> list[list[dict[str, Any]]]:
        model = {"name": str(tiny_folder), "quantization": "none", "dtype": "float32", "cache": ""}
        given = rollout_job.answer(model=model, adapter=None, prompts=PROMPTS, max_new_tokens=6, seed=3, **how)
        assert [one["name"] for one in given] == [prompt["name"] for prompt in PROMPTS]
        return [one["answers"] for one in given]

    yield ask
    rollout_job.forget()


def test_the_greedy_answer_comes_first_and_the_samples_are_those_without_it(ask: Callable[..., list]) -> None:
    def ids(**how: Any) -> list[list[list[int]]]:
        return [[one["ids"] for one in answers] for answers in ask(**how)]

    greedy = ids(k=0, greedy=True, temperature=1.0)
    samples = ids(k=2, greedy=False, temperature=0.7)
    assert ids(k=2, greedy=True, temperature=0.7) == [first + rest for first, rest in zip(greedy, samples, strict=True)]
    assert [len(answers) for answers in greedy] == [1, 1]
    assert len({tuple(one) for answers in (*greedy, *samples) for one in answers}) == 6, "answers that are all alike would show nothing"
