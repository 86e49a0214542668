"""How likely a model finds given answers, and what there is to say of the model itself: its window, its size, its memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prefkit.models.attention import TreeMask
from prefkit.models.prefix_tree import pack
from prefkit.models.rollout_job import policy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NO_LIMIT = 10**7
"""Tokenizers without a limit of their own name a huge number."""


def likelihoods(*, model: dict, adapter: str | None, rows: list[dict]) -> list[list[dict]]:
    """The log-likelihood of given answers to prompts.

    Args: rows: {"messages", "answers": [text…]}. Returns for each row and answer {"logprob": nats in all, "tokens"}, without the end token.
    """
    network, tokenizer, _ = policy(model, adapter)
    sequences: list[list[int]] = []
    starts: list[int] = []
    for row in rows:
        prompt = tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True)["input_ids"]
        for answer in row["answers"]:
            sequences.append([*prompt, *tokenizer(answer, add_special_tokens=False)["input_ids"]])
            starts.append(len(prompt))
    found = iter(zip(sequence_logprobs(network, sequences, starts), sequences, starts, strict=True))
    return [
        [{"logprob": logprob, "tokens": len(sequence) - start} for _ in row["answers"] for logprob, sequence, start in [next(found)]]
        for row in rows
    ]


def sequence_logprobs(model: PreTrainedModel, sequences: Sequence[Sequence[int]], starts: Sequence[int]) -> list[float]:
    """For each sequence the sum of the log-probabilities of its tokens from position `starts[i]` on (at least 1), at T = 1.

    What sequences share is computed once, see `prefix_tree`.
    """
    import torch

    head: Any = model.get_output_embeddings()
    totals = [0.0] * len(sequences)
    with torch.inference_mode():
        for tree in pack(sequences):
            tokens, depth, mask = (torch.from_numpy(value).to(model.device)[None] for value in (tree.tokens, tree.depth, tree.mask))
            output = model.base_model(
                input_ids=tokens, attention_mask=mask[None], position_ids=depth, use_cache=False, tree=TreeMask(mask[0])
            )
            for member, path in zip(tree.members, tree.nodes, strict=True):
                start = starts[member]
                before = torch.from_numpy(path[start - 1 : -1]).to(model.device)
                wanted = torch.tensor(list(sequences[member][start:]), device=model.device)
                logits = head(output.last_hidden_state[0, before]).float()
                totals[member] = float(logits.log_softmax(-1).gather(1, wanted[:, None]).sum())
    return totals


def facts(*, model: dict, adapter: str | None, prompts: list[list[dict]]) -> dict:
    """What there is to say of the model and of prompts, before it is asked.

    Returns {"context": tokens that it can attend to, None where it names no limit; "parameters"; "bytes": of its weights as loaded;
    "lengths": tokens of each prompt}.
    """
    network, tokenizer, _ = policy(model, adapter)
    config = network.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None)]
    return {
        "context": min((int(limit) for limit in limits if limit and limit < NO_LIMIT), default=None),
        "parameters": network.num_parameters(),
        "bytes": int(network.get_memory_footprint()),
        "lengths": [len(tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]) for messages in prompts],
    }


def footprint(*, report: Any = None) -> dict:
    """The most memory that this process has had, in bytes: {"memory": resident, "gpu": on the GPU, or None without one}."""
    import resource

    import torch

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"memory": peak, "gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None}
