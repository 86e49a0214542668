"""The work of a model process: answer a batch of prompts."""

from __future__ import annotations

from prefkit.models.generate import sample, stream_seed
from prefkit.models.load import ModelSpec, end_ids, load_policy

_loaded: dict = {}


def policy(model: dict, adapter: str | None):
    """The model and tokenizer asked for; kept until another is asked for, so that a stage's batches load it once."""
    key = (tuple(sorted(model.items())), adapter)
    if _loaded.get("key") != key:
        _loaded.clear()
        loaded, tokenizer = load_policy(ModelSpec(**model), adapter)
        _loaded.update(key=key, model=loaded, tokenizer=tokenizer, end=end_ids(loaded, tokenizer))
    return _loaded["model"], _loaded["tokenizer"], _loaded["end"]


def answer(
    *, model: dict, adapter: str | None, prompts: list[dict], k: int, temperature: float, max_new_tokens: int, seed: int
) -> list[dict]:
    """K answers for each prompt. Args: prompts: {"name", "messages"}; the name seeds its random streams.

    Returns for each prompt {"name", "prompt_ids", "answers": [{"completion", "ids", "logprobs", "ended"}]}; `completion` has no end token.
    """
    network, tokenizer, end = policy(model, adapter)
    ids = [tokenizer.apply_chat_template(prompt["messages"], add_generation_prompt=True)["input_ids"] for prompt in prompts]
    seeds = [[stream_seed(seed, prompt["name"], index) for index in range(k)] for prompt in prompts]
    results = sample(network, ids, seeds, end_ids=end, max_new_tokens=max_new_tokens, temperature=temperature)
    return [
        {
            "name": prompt["name"],
            "prompt_ids": prompt_ids,
            "answers": [
                {
                    "completion": tokenizer.decode(one.ids[:-1] if one.ended else one.ids, skip_special_tokens=True),
                    "ids": one.ids,
                    "logprobs": [round(value, 5) for value in one.logprobs],
                    "ended": one.ended,
                }
                for one in answers
            ],
        }
        for prompt, prompt_ids, answers in zip(prompts, ids, results, strict=True)
    ]


def tokenize(*, model: dict, adapter: str | None, rows: list[dict]) -> list[dict]:
    """Token ids of training rows: {"messages", "answers": [text…]} -> {"prompt_ids", "answer_ids": [[…]…]}, each answer with its end token."""
    _, tokenizer, _ = policy(model, adapter)
    prompts = [tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True)["input_ids"] for row in rows]
    return [
        {"prompt_ids": prompt, "answer_ids": [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in row["answers"]]}
        for prompt, row in zip(prompts, rows, strict=True)
    ]
