"""Sample answers: each prompt is prefilled once and its K answers are decoded as branches that share it.

The K branches of a prompt are K query positions of one batch row. The key-value cache holds the prompt once and then one slot for
each branch and step; a boolean mask lets a branch see the prompt and its own tokens. So K answers cost one prefill and no copy of the
prompt's cache. Rows of equal prompt length are not needed: prompts are padded on the left.

Every branch draws from its own random stream, seeded by (seed, prompt, k): an answer does not depend on what else is in the batch order,
and a run that is continued after a kill samples the same answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefkit.models.prefix_tree import pack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Answer:
    """One sampled answer: token ids (with the end token where it was produced), their log-probabilities at T = 1, and whether it ended."""

    ids: list[int]
    logprobs: list[float]
    ended: bool


def stream_seed(seed: int, name: str, k: int) -> int:
    """A 63-bit seed for answer k of the prompt called `name`."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}/{k}".encode()).digest()[:8], "big") >> 1


def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    *,
    end_ids: Sequence[int],
    max_new_tokens: int,
    temperature: float = 1.0,
) -> list[list[Answer]]:
    """Sample len(seeds[i]) answers for each prompt; temperature 0 takes the likeliest token.

    Args: prompts: token ids, of any lengths; seeds: for each prompt one seed an answer, the same number K for every prompt.
    Returns: for each prompt its K answers, in the order of the seeds.
    """
    import numpy
    import torch

    k = len(seeds[0])
    uniforms = numpy.stack([[numpy.random.Generator(numpy.random.Philox(seed)).random(max_new_tokens) for seed in row] for row in seeds])
    with torch.inference_mode():
        branches = _Branches(model, prompts, k, max_new_tokens)
        random = torch.from_numpy(uniforms).to(branches.device, torch.float32)
        end = torch.tensor(list(end_ids), device=branches.device)
        tokens: list[list[list[int]]] = [[[] for _ in range(k)] for _ in prompts]
        logprobs: list[list[list[float]]] = [[[] for _ in range(k)] for _ in prompts]
        ended = [[False] * k for _ in prompts]
        logits = branches.prefill()
        for step in range(max_new_tokens):
            chosen, chosen_logprobs = _draw(logits, random[branches.prompt, branches.branch, step], temperature)
            is_end = torch.isin(chosen, end)
            for prompt, branch, token, logprob, stop, alive in zip(
                *(value.flatten().tolist() for value in (branches.prompt, branches.branch, chosen, chosen_logprobs, is_end, branches.alive)), strict=True
            ):
                if alive:
                    tokens[prompt][branch].append(token)
                    logprobs[prompt][branch].append(logprob)
                    ended[prompt][branch] = stop
            branches.alive &= ~is_end
            if not branches.alive.any() or step + 1 == max_new_tokens:
                break
            chosen = branches.compact(chosen)
            logits = branches.decode(chosen)
    return [[Answer(*parts) for parts in zip(tokens[i], logprobs[i], ended[i], strict=True)] for i in range(len(prompts))]


def _draw(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One token for each branch by inverting the distribution function at `uniform`, and its log-probability at T = 1.

    The vocabulary is searched in two levels (blocks of 128, then inside the block), which gives the same draw as a running sum over
    all of it at a fraction of the cost. Args: logits (P, K, V); uniform (P, K). Returns two tensors (P, K).
    """
    import torch

    shape, block = logits.shape[:-1], 128
    flat = logits.flatten(0, -2)
    padding = -flat.shape[-1] % block
    if padding:
        flat = torch.nn.functional.pad(flat, (0, padding), value=float("-inf"))
    blocks = flat.unflatten(-1, (-1, block))
    peaks = blocks.amax(-1)
    peak = peaks.amax(-1, keepdim=True)
    mass = (blocks - peak.unsqueeze(-1)).exp()
    log_total = mass.sum(-1, dtype=torch.float32).sum(-1).log()
    rows = torch.arange(len(flat), device=flat.device)
    if temperature == 0:
        which = peaks.argmax(-1)
        inside = blocks[rows, which].argmax(-1)
    else:
        if temperature != 1:
            mass = ((blocks - peak.unsqueeze(-1)) / temperature).exp()
        running = mass.sum(-1, dtype=torch.float32).cumsum(-1)
        target = uniform.flatten() * running[:, -1]
        # Rounding may put the target at or past the end of a sum: then the last block, and the last token in it, with any mass is taken.
        last_block = (running < running[:, -1:]).sum(-1)
        which = torch.minimum(torch.searchsorted(running, target.unsqueeze(-1), right=True).squeeze(-1), last_block)
        before = torch.where(which > 0, running[rows, (which - 1).clamp(min=0)], torch.zeros_like(target))
        inner = mass[rows, which].float().cumsum(-1)
        last = block - 1 - (mass[rows, which] > 0).flip(-1).int().argmax(-1)
        inside = torch.minimum(torch.searchsorted(inner, (target - before).unsqueeze(-1), right=True).squeeze(-1), last)
    chosen = which * block + inside
    logprobs = flat[rows, chosen].float() - peak.squeeze(-1).float() - log_total
    return chosen.view(shape), logprobs.view(shape)


class _Layer:
    """The cache of one transformer layer: (P, H, capacity, D) buffers filled from the left; grown in place, never concatenated."""

    is_sliding = False
    is_compileable = False

    def __init__(self, capacity: int):
        self.capacity, self.length = capacity, 0
        self.keys = self.values = None

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_args, **_kwargs) -> tuple[torch.Tensor, torch.Tensor]:
        if self.keys is None:
            shape = (*keys.shape[:2], self.capacity, keys.shape[-1])
            self.keys, self.values = keys.new_empty(shape), values.new_empty(shape)
        stop = self.length + keys.shape[-2]
        self.keys[:, :, self.length : stop] = keys
        self.values[:, :, self.length : stop] = values
        self.length = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def place(self, prompt: int, prompts: int, prefix: int, source: _Layer, nodes: torch.Tensor) -> None:
        """Copy one prompt's positions out of a tree's cache, against the right edge of the `prefix` positions."""
        if self.keys is None:
            shape = (prompts, source.keys.shape[1], self.capacity, source.keys.shape[-1])
            self.keys, self.values, self.length = source.keys.new_zeros(shape), source.values.new_zeros(shape), prefix
        self.keys[prompt, :, prefix - len(nodes) : prefix] = source.keys[0][:, nodes]
        self.values[prompt, :, prefix - len(nodes) : prefix] = source.values[0][:, nodes]

    def select(self, prompts: torch.Tensor, prefix: int, slots: torch.Tensor) -> None:
        """Keep these prompts, and of each prompt's slots after `prefix` these, (P', S')."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_empty((len(prompts), old.shape[1], self.capacity, old.shape[-1]))
            new[:, :, :prefix] = old[prompts, :, :prefix]
            index = slots[:, None, :, None].expand(-1, old.shape[1], -1, old.shape[-1])
            new[:, :, prefix : prefix + slots.shape[1]] = old[prompts, :, prefix : self.length].gather(2, index)
            setattr(self, name, new)
        self.length = prefix + slots.shape[1]

    def get_seq_length(self, *_args) -> int:
        return self.length


class _Branches:
    """K branches for each of P prompts over one shared cache, with the rows that have ended taken out as decoding goes on."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], k: int, max_new_tokens: int):
        import torch

        self.model, self.device = model, model.device
        self.prompts, self.prefix = prompts, max(map(len, prompts))
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        self.mask = torch.arange(self.prefix, device=self.device)[None] >= self.prefix - self.lengths[:, None]
        self.steps = 0
        self.k = k
        self.prompt = torch.arange(len(prompts), device=self.device)[:, None].expand(-1, k).contiguous()
        self.branch = torch.arange(k, device=self.device)[None].expand(len(prompts), -1).contiguous()
        self.alive = torch.ones_like(self.prompt, dtype=torch.bool)
        self.cache = _cache(model, self.prefix + k * max_new_tokens)

    def _hidden(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache) -> torch.Tensor:
        return self.model.base_model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True).last_hidden_state

    def prefill(self) -> torch.Tensor:
        """Run the prompts, each shared beginning once; logits of the first token, (P, K, V) by expansion of one row a prompt."""
        import torch

        layers = self.cache.layers
        last = [None] * len(self.prompts)
        for tree in pack(self.prompts):
            nodes = _cache(self.model, len(tree.tokens))
            tokens, depth, mask = (torch.from_numpy(value).to(self.device)[None] for value in (tree.tokens, tree.depth, tree.mask))
            hidden = self._hidden(tokens, mask[None], depth, nodes)[0]
            for prompt, path in zip(tree.members, tree.nodes, strict=True):
                index = torch.from_numpy(path).to(self.device)
                last[prompt] = hidden[index[-1]]
                for layer, source in zip(layers, nodes.layers, strict=True):
                    layer.place(prompt, len(self.prompts), self.prefix, source, index)
        return self.model.get_output_embeddings()(torch.stack(last))[:, None].expand(-1, self.k, -1)

    def decode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token to each branch, (P, K); logits of the next one, (P, K, V)."""
        import torch

        width = tokens.shape[1]
        self.steps += 1
        own = torch.eye(width, dtype=torch.bool, device=self.device).repeat(1, self.steps)[None, None].expand(len(tokens), 1, -1, -1)
        mask = torch.cat([self.mask[:, None, None, :].expand(-1, 1, width, -1), own], dim=-1)
        positions = (self.lengths + self.steps - 1)[:, None].expand(-1, width)
        return self.model.get_output_embeddings()(self._hidden(tokens, mask, positions, self.cache))

    def compact(self, tokens: torch.Tensor) -> torch.Tensor:
        """Drop prompts whose branches have all ended, and branches where every prompt has ended ones, once that saves a quarter."""
        import torch

        counts = self.alive.sum(1)
        rows = counts.nonzero().flatten()
        width = int(counts.max())
        if len(rows) * width > 0.75 * self.alive.numel():
            return tokens
        order = self.alive[rows].to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :width]
        slots = (torch.arange(self.steps, device=self.device)[None, :, None] * self.alive.shape[1] + order[:, None, :]).flatten(1)
        for layer in self.cache.layers:
            layer.select(rows, self.prefix, slots)
        self.mask, self.lengths = self.mask[rows], self.lengths[rows]
        self.prompt, self.branch, self.alive, tokens = (value[rows].gather(1, order) for value in (self.prompt, self.branch, self.alive, tokens))
        return tokens


def _cache(model: PreTrainedModel, capacity: int):
    from transformers import Cache

    return Cache(layers=[_Layer(capacity) for _ in range(model.config.get_text_config().num_hidden_layers)])
