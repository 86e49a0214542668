"""The likelihoods of given answers against a plain forward pass, and what is said of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prefkit.models import rollout_job
from prefkit.models.likelihood import facts, footprint, likelihoods, sequence_logprobs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROWS = [
    {
        "messages": [{"role": "user", "content": "item: id, name\n\nWhich?"}],
        "answers": ["SELECT name FROM item", "SELECT id FROM item", "no"],
    },
    {"messages": [{"role": "user", "content": "item: id, name\n\nHow many?"}], "answers": ["SELECT COUNT(*) FROM item"]},
]


@pytest.fixture
def model(tiny_folder: Path) -> Iterator[dict[str, str]]:
    yield {"name": str(tiny_folder), "quantization": "none", "dtype": "float32", "cache": ""}
    rollout_job.forget()


def plain(network: PreTrainedModel, sequence: list[int], start: int) -> float:
    """The same sum from one forward pass over one sequence, in transformers' own way."""
    import torch

    with torch.no_grad():
        logits = network(input_ids=torch.tensor([sequence])).logits[0].log_softmax(-1)
    return sum(float(logits[place - 1, sequence[place]]) for place in range(start, len(sequence)))


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_each_sequence_has_the_likelihood_that_it_has_alone(kind: str, random_model: Callable[[str, str], PreTrainedModel]) -> None:
    from prefkit.models.attention import register

    sequences = [[5, 6, 7, 8, 9], [5, 6, 7, 10], [5, 6, 11, 12, 13, 14], [20, 21], [5, 6, 7, 8, 9, 30]]
    starts = [3, 3, 1, 1, 5]
    found = sequence_logprobs(random_model(kind, register()), sequences, starts)
    reference = random_model(kind, "eager")
    assert found == pytest.approx([plain(reference, one, start) for one, start in zip(sequences, starts, strict=True)], abs=1e-3)


def test_answers_are_scored_after_their_own_prompt(model: dict[str, str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model["name"])
    network = AutoModelForCausalLM.from_pretrained(model["name"], dtype="float32", attn_implementation="eager")
    found = likelihoods(model=model, adapter=None, rows=ROWS)
    assert [len(answers) for answers in found] == [3, 1]
    for row, answers in zip(ROWS, found, strict=True):
        prompt = tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True)["input_ids"]
        for text, answer in zip(row["answers"], answers, strict=True):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            assert answer["tokens"] == len(ids)
            assert answer["logprob"] == pytest.approx(plain(network, [*prompt, *ids], len(prompt)), rel=1e-4)


def test_what_is_said_of_a_model(model: dict[str, str]) -> None:
    import torch

    prompts = [row["messages"] for row in ROWS]
    said = facts(model=model, adapter=None, prompts=prompts)
    answered = rollout_job.answer(
        model=model, adapter=None, prompts=[{"name": str(number), "messages": messages} for number, messages in enumerate(prompts)],
        k=1, greedy=False, temperature=1.0, max_new_tokens=1, seed=0,
    )  # fmt: skip
    assert said["lengths"] == [len(one["prompt_ids"]) for one in answered]
    network, tokenizer, _ = rollout_job.policy(model, None)
    assert said["parameters"] == sum(parameter.numel() for parameter in network.parameters())
    assert 0 <= said["bytes"] - 4 * said["parameters"] < 4096  # with its buffers
    assert said["context"] == min(network.config.max_position_embeddings, tokenizer.model_max_length)
    used = footprint()
    assert said["bytes"] < used["memory"] < 64e9 and (used["gpu"] is None) is not torch.cuda.is_available()


def test_the_smaller_of_the_two_limits_is_the_window(model: dict[str, str]) -> None:
    network, tokenizer, _ = rollout_job.policy(model, None)
    tokenizer.model_max_length = int(1e30)
    assert facts(model=model, adapter=None, prompts=[])["context"] == network.config.max_position_embeddings
    tokenizer.model_max_length = 77
    assert facts(model=model, adapter=None, prompts=[])["context"] == 77
    tokenizer.model_max_length, network.config.max_position_embeddings = int(1e30), 10**9
    assert facts(model=model, adapter=None, prompts=[])["context"] is None
