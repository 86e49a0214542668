"""Sampling several answers to each prompt: transformers' generate with num_return_sequences, and prefkit's sampler.

    python benchmarks/sampler.py [--quick] [--json FILE]

Both draw from the whole distribution at T = 1. Tokens count up to an answer's end.
"""

from __future__ import annotations

from typing import Any

from _timing import arguments, finish, in_turns, prompt_ids, quiet


def main() -> None:
    parser = arguments(str(__doc__).splitlines()[0], rounds=5)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--databases", type=int, default=2, help="databases the prompts are spread over; prompts on one share its schema")
    parser.add_argument("--k", type=int, default=8, help="answers for each prompt")
    parser.add_argument("--tokens", type=int, default=32, help="longest answer")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.prompts, given.databases, given.k, given.tokens = 1, 4, 1, 4, 16
    quiet()
    import torch

    from prefkit.models.load import ModelSpec, end_ids, load_base
    from prefkit.resources import cache_dir

    torch.set_num_threads(given.threads)
    model, tokenizer = load_base(ModelSpec(cache=str(cache_dir())))
    prompts, end = prompt_ids(tokenizer, given.prompts, given.databases), end_ids(model, tokenizer)
    cases = {
        "transformers generate, num_return_sequences": lambda: by_transformers(model, tokenizer, prompts, end, given.k, given.tokens),
        "prefkit sample": lambda: by_prefkit(model, prompts, end, given.k, given.tokens),
    }
    if not given.quick:
        cases["prefkit sample"]()  # warm
    figures = in_turns(cases, given.rounds, "tokens")
    length = sum(map(len, prompts)) // len(prompts)
    settings = {
        "prompts": given.prompts, "databases": given.databases, "k": given.k, "prompt tokens": length, "longest answer": given.tokens,
        "threads": given.threads, "rounds": given.rounds,
    }  # fmt: skip
    finish("Sampling", settings, figures, given.json)


def by_transformers(model: Any, tokenizer: Any, prompts: list[list[int]], end: list[int], k: int, tokens: int) -> int:
    """How many tokens `generate` made."""
    import torch

    model.set_attn_implementation("sdpa")  # its own
    tokenizer.padding_side = "left"
    batch = tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
    torch.manual_seed(0)
    with torch.inference_mode():
        made = model.generate(
            **batch, num_return_sequences=k, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=tokens, eos_token_id=end,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
    answers = made[:, batch["input_ids"].shape[1] :].tolist()
    return sum(next((place + 1 for place, token in enumerate(answer) if token in end), len(answer)) for answer in answers)


def by_prefkit(model: Any, prompts: list[list[int]], end: list[int], k: int, tokens: int) -> int:
    """How many tokens `sample` made."""
    from prefkit.models.attention import register
    from prefkit.models.generate import sample, stream_seed

    model.set_attn_implementation(register())
    seeds = [[stream_seed(0, str(prompt), index) for index in range(k)] for prompt in range(len(prompts))]
    return sum(len(answer.ids) for group in sample(model, prompts, seeds, end_ids=end, max_new_tokens=tokens) for answer in group)


if __name__ == "__main__":
    main()
