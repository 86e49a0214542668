"""Sampling: the answers of transformers, the model's own log-probabilities, the softmax's distribution, whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import pytest

from prefkit.models import attention, generate
from prefkit.models.generate import Answer, sample, stream_seed

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

SCHEMA = [7, 8, 9, 10, 11, 12, 13, 14]
PROMPTS = [[*SCHEMA, 20], [*SCHEMA, 21, 22, 23], [30, 31], [*SCHEMA, 21, 22, 24, 25, 26]]
NEVER: list[int] = []
GREEDY: list[list[int | None]] = [[None]] * len(PROMPTS)
OFTEN = list(range(1, 100, 4))
"""A quarter of the vocabulary ends an answer: most branches end within a few tokens."""
KINDS = ("llama", "qwen2")


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_answers_are_those_of_transformers(kind: str, random_model: Callable[[str, str], PreTrainedModel]) -> None:
    import torch

    stock: Any = random_model(kind, "sdpa")
    end = [3, 50]
    own = sample(random_model(kind, attention.register()), PROMPTS, GREEDY, end_ids=end, max_new_tokens=30)
    for prompt, (answer,) in zip(PROMPTS, own, strict=True):
        ids = torch.tensor([prompt])
        expected = stock.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False, eos_token_id=end, pad_token_id=0
        )
        assert answer.ids == expected[0, len(prompt) :].tolist()
    assert len({tuple(answer.ids) for (answer,) in own}) == len(PROMPTS), "a model that says the same to everything shows nothing"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_those_of_a_full_forward(kind: str, temperature: float, random_model: Callable[[str, str], PreTrainedModel]) -> None:
    import torch

    own_model, stock = random_model(kind, attention.register()), random_model(kind, "sdpa")
    own = sample(own_model, PROMPTS, greedy_and(seeds(4)), end_ids=OFTEN[::3], max_new_tokens=20, temperature=temperature)
    for prompt, answers in zip(PROMPTS, own, strict=True):
        for answer in answers:
            with torch.no_grad():
                logits = stock(torch.tensor([prompt + answer.ids])).logits[0, len(prompt) - 1 : -1]
            expected = logits.log_softmax(-1).gather(1, torch.tensor(answer.ids)[:, None])[:, 0]
            assert (torch.tensor(answer.logprobs) - expected).abs().max() < 1e-4


def test_answers_do_not_depend_on_the_batch(model: PreTrainedModel) -> None:
    together = answer(model, PROMPTS, seeds(4))
    for index, prompt in enumerate(PROMPTS):
        assert same(together[index], answer(model, [prompt], [seeds(4)[index]])[0])
        for k in range(4):
            assert same([together[index][k]], answer(model, [prompt], [[seeds(4)[index][k]]])[0])
    backwards = answer(model, PROMPTS[::-1], seeds(4)[::-1])
    assert all(map(same, together, backwards[::-1]))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_greedy_and_sampled_answers_in_one_call_are_those_of_separate_calls(temperature: float, model: PreTrainedModel) -> None:
    together = answer(model, PROMPTS, greedy_and(seeds(3)), temperature=temperature)
    greedy, sampled = answer(model, PROMPTS, GREEDY), answer(model, PROMPTS, seeds(3), temperature=temperature)
    for both, first, rest in zip(together, greedy, sampled, strict=True):
        assert same(both, [*first, *rest])
    assert any(first[0].ids not in [one.ids for one in rest] for first, rest in zip(greedy, sampled, strict=True))


def test_answers_end_with_their_first_end_token_or_are_cut(model: PreTrainedModel) -> None:
    every = [one for answers in answer(model, PROMPTS, seeds(8), most=12) for one in answers]
    for one in every:
        assert one.ended == (one.ids[-1] in OFTEN)
        assert not set(one.ids[:-1]) & set(OFTEN)
        assert one.ended or len(one.ids) == 12
        assert len(one.logprobs) == len(one.ids)
    assert any(len(one.ids) == 1 for one in every)
    assert len({len(one.ids) for one in every}) > 3


def test_an_answer_of_one_token(model: PreTrainedModel) -> None:
    assert [[len(one.ids) for one in answers] for answers in answer(model, PROMPTS, seeds(2), most=1)] == [[1, 1]] * 4


def test_ended_answers_leave_the_batch(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    decode = generate._Rows.decode

    def counted(self: generate._Rows, tokens: torch.Tensor) -> torch.Tensor:
        rows.append(len(tokens))
        return decode(self, tokens)

    monkeypatch.setattr(generate._Rows, "decode", counted)
    answers = answer(model, PROMPTS, seeds(8), most=40)
    alive = [sum(len(one.ids) > step for group in answers for one in group) for step in range(1, len(rows) + 1)]
    assert rows == sorted(rows, reverse=True)
    assert all(needed <= carried <= max(needed / 0.75 + 1, needed) for needed, carried in zip(alive, rows, strict=True))
    assert rows[-1] < 32 / 4

    monkeypatch.setattr(generate._Rows, "compact", lambda _self, tokens: tokens)
    rows.clear()
    assert all(map(same, answers, answer(model, PROMPTS, seeds(8), most=40)))
    assert set(rows) == {32}


def test_each_shared_beginning_is_prefilled_once_whatever_k(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    hidden = generate._Rows._hidden

    def counted(self: generate._Rows, cache: object, **inputs: torch.Tensor) -> torch.Tensor:
        widths.append((inputs["input_ids"].numel(), "tree" in inputs))
        return hidden(self, cache, **inputs)

    monkeypatch.setattr(generate._Rows, "_hidden", counted)
    answer(model, [PROMPTS[0], PROMPTS[1]], seeds(16)[:2], most=1)
    assert widths == [(len(SCHEMA) + 1 + 3, True)]  # the schema once for both prompts and all their answers


def test_prompts_may_have_different_numbers_of_answers(model: PreTrainedModel) -> None:
    streams = [row[:count] for row, count in zip(seeds(4), (1, 4, 2, 3), strict=True)]
    answers = answer(model, PROMPTS, streams)
    assert [len(group) for group in answers] == [1, 4, 2, 3]
    every = answer(model, PROMPTS, seeds(4))
    assert all(same(group, whole[: len(group)]) for group, whole in zip(answers, every, strict=True))


def test_the_same_prompt_twice_and_one_that_begins_another(model: PreTrainedModel) -> None:
    prompts = [PROMPTS[1], PROMPTS[1][:-1], PROMPTS[1]]
    answers = answer(model, prompts, [seeds(4)[0]] * 3)
    assert same(answers[0], answers[2])
    assert same(answers[1], answer(model, [prompts[1]], [seeds(4)[0]])[0])


def test_the_same_seed_gives_the_same_answers_and_another_does_not(model: PreTrainedModel) -> None:
    first, again, other = (answer(model, PROMPTS, seeds(4, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({tuple(one.ids) for one in first[0]}) > 1


def test_stream_seeds_differ_in_every_part() -> None:
    made = {stream_seed(seed, name, k) for seed in (0, 1) for name in ("a", "b") for k in (0, 1)}
    assert len(made) == 8
    assert all(0 <= seed < 2**63 for seed in made)
    assert stream_seed(17, "rollouts-0/q1", 3) == 5013426974600424670, "another value breaks the resuming of runs"


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("size", [50, 128, 300])
def test_draws_follow_the_softmax(temperature: float, size: int) -> None:
    """Chi-square over 40,000 draws with a fixed seed; the same test sees a temperature that is ten per cent off."""
    import torch
    from scipy.stats import chisquare

    draws = 40_000
    logits = torch.randn(size, generator=torch.Generator().manual_seed(size)) * 1.5
    uniform = torch.rand(draws, generator=torch.Generator().manual_seed(5))
    chosen, _ = generate._draw(logits.expand(draws, -1), uniform, temperature)
    counts = numpy.bincount(chosen.numpy(), minlength=size)
    expected = (logits.double() / temperature).softmax(-1).numpy() * draws
    rare = expected < 5
    observed, wanted = (numpy.append(values[~rare], values[rare].sum()) for values in (counts, expected))
    kept = wanted > 0
    assert chisquare(observed[kept], wanted[kept] * observed.sum() / wanted.sum()).pvalue > 0.001
    wrong = (logits.double() / (temperature * 1.1)).softmax(-1).numpy() * draws
    assert chisquare(observed[:-1], wrong[~rare] * observed[:-1].sum() / wrong[~rare].sum()).pvalue < 1e-6


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_a_draw_inverts_the_distribution_function_and_is_the_likeliest_token_without_a_number(temperature: float) -> None:
    import torch

    logits = torch.randn(600, 500, generator=torch.Generator().manual_seed(0)) * 3
    uniform = torch.rand(600, generator=torch.Generator().manual_seed(1))
    uniform[::2] = float("nan")
    chosen, logprobs = generate._draw(logits, uniform, temperature)
    plain = logits.double()
    assert (logprobs - plain.log_softmax(-1).gather(-1, chosen[..., None])[..., 0]).abs().max() < 1e-5
    running = (plain / temperature).softmax(-1).cumsum(-1)
    expected = torch.searchsorted(running, uniform.double()[..., None], right=True)[..., 0]
    assert torch.equal(chosen[::2], plain.argmax(-1)[::2])
    # In single precision a draw on the border of two tokens may fall to either.
    assert (chosen != expected)[1::2].float().mean() < 0.005


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24, 1.0])
def test_no_draw_takes_a_token_that_cannot_be(uniform: float) -> None:
    import torch

    logits = torch.full((1, 300), float("-inf"))
    logits[..., [5, 140, 141]] = torch.tensor([0.0, 1.0, -1.0])
    chosen, logprobs = generate._draw(logits, torch.tensor([uniform]), 1.0)
    assert chosen.item() in (5, 140, 141)
    assert logprobs.isfinite().all()


@pytest.fixture(scope="module")
def model(random_model: Callable[[str, str], PreTrainedModel]) -> PreTrainedModel:
    return random_model("llama", attention.register())


def seeds(k: int, seed: int = 0) -> list[list[int]]:
    return [[stream_seed(seed, str(prompt), index) for index in range(k)] for prompt in range(len(PROMPTS))]


def greedy_and(streams: list[list[int]]) -> list[list[int | None]]:
    return [[None, *row] for row in streams]


def answer(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    streams: Sequence[Sequence[int | None]],
    most: int = 20,
    temperature: float = 1.0,
) -> list[list[Answer]]:
    return sample(model, prompts, streams, end_ids=OFTEN, max_new_tokens=most, temperature=temperature)


def same(first: Sequence[Answer], second: Sequence[Answer]) -> bool:
    """Equal tokens, and log-probabilities but for the order in which a sum was taken."""
    return [one.ids for one in first] == [one.ids for one in second] and all(
        numpy.allclose(one.logprobs, two.logprobs, atol=1e-4) for one, two in zip(first, second, strict=True)
    )
