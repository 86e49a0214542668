"""The work of a model process: answer a batch of prompts."""

from __future__ import annotations

from prefkit.models.generate import sample, stream_seed
from prefkit.models.load import ModelSpec, end_ids, load_base, with_adapter

_loaded: dict = {}


def policy(model: dict, adapter: str | None):
    """The policy, its tokenizer and end tokens. The base model is loaded once; each plain adapter is merged into a copy of it."""
    spec, key = ModelSpec(**model), tuple(sorted(model.items()))
    if _loaded.get("model") != key:
        _loaded.clear()
        base, tokenizer = load_base(spec)
        _loaded.update(model=key, base=base, tokenizer=tokenizer, end=end_ids(base, tokenizer), adapter=None, policy=base)
    if _loaded["adapter"] != adapter:
        _loaded["policy"] = None  # the last copy is let go before the next is made
        _loaded["policy"] = with_adapter(_loaded["base"], adapter, spec) if adapter else _loaded["base"]
        _loaded["adapter"] = adapter
    return _loaded["policy"], _loaded["tokenizer"], _loaded["end"]


def forget() -> None:
    """Let go of the loaded models, before a training loads its own."""
    _loaded.clear()


def answer(
    *,
    model: dict,
    adapter: str | None,
    prompts: list[dict],
    k: int,
    greedy: bool,
    temperature: float,
    max_new_tokens: int,
    seed: int,
) -> list[dict]:
    """For each prompt its greedy answer, where asked for, and then K samples. Args: prompts: {"name", "messages"}; the name seeds its
    random streams.

    Returns for each prompt {"name", "prompt_ids", "answers": [{"completion", "ids", "logprobs", "ended"}]}; `completion` has no end token.
    """
    network, tokenizer, end = policy(model, adapter)
    ids = [tokenizer.apply_chat_template(prompt["messages"], add_generation_prompt=True)["input_ids"] for prompt in prompts]
    first: list[int | None] = [None] if greedy else []
    seeds = [first + [stream_seed(seed, prompt["name"], index) for index in range(k)] for prompt in prompts]
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
    """Token ids of training rows, each answer with its end token.

    Args: rows: {"messages", "answers": [text…]}. Returns for each row {"prompt_ids", "answer_ids": [[…]…]}.
    """
    _, tokenizer, _ = policy(model, adapter)
    prompts = [tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True)["input_ids"] for row in rows]
    return [
        {
            "prompt_ids": prompt,
            "answer_ids": [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in row["answers"]],
        }
        for prompt, row in zip(prompts, rows, strict=True)
    ]
