"""Sample answers: what prompts share is computed and kept once, and rows that have ended leave the batch.

Prompts are prefilled as trees (see `prefix_tree`): a schema once for all questions on it. While answers are decoded, the keys that a tree's
prompts have in common stay in one place (`attention.SharedPrefix`); each of the K answers of each prompt is a row with keys of its own for
the rest: the end of its question and what it has written.

Every answer draws from its own random stream, seeded by (seed, prompt, k), so a run that is continued after a kill samples the same
answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefkit.models.attention import SharedPrefix, TreeMask
from prefkit.models.prefix_tree import Tree, pack

if TYPE_CHECKING:
    import numpy
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
    seeds: Sequence[Sequence[int | None]],
    *,
    end_ids: Sequence[int],
    max_new_tokens: int,
    temperature: float = 1.0,
) -> list[list[Answer]]:
    """Sample len(seeds[i]) answers for each prompt, or take the likeliest tokens.

    Args: model: loaded with the attention of `models.attention`; prompts: token ids, of any lengths; seeds: for each prompt one seed an
    answer, None for a greedy one; temperature: above 0.
    Returns: for each prompt its answers, in the order of the seeds.
    """
    import numpy
    import torch

    with torch.inference_mode():
        rows = _Rows(model, prompts, [len(row) for row in seeds], max_new_tokens)
        flat = [seed for row in seeds for seed in row]
        uniforms = numpy.stack([_uniforms(seed, max_new_tokens) for seed in flat])
        random = torch.from_numpy(uniforms).to(model.device, torch.float32)
        end = torch.tensor(list(end_ids), device=model.device)
        tokens: list[list[int]] = [[] for _ in flat]
        logprobs: list[list[float]] = [[] for _ in flat]
        ended = [False] * len(flat)
        logits = rows.prefill()
        for step in range(max_new_tokens):
            chosen, chosen_logprobs = _draw(logits, random[rows.names, step], temperature)
            is_end = torch.isin(chosen, end)
            for name, token, logprob, stop, alive in zip(
                *(value.tolist() for value in (rows.names, chosen, chosen_logprobs, is_end, rows.alive)), strict=True
            ):
                if alive:
                    tokens[name].append(token)
                    logprobs[name].append(logprob)
                    ended[name] = stop
            rows.alive &= ~is_end
            if not rows.alive.any() or step + 1 == max_new_tokens:
                break
            logits = rows.decode(rows.compact(chosen))
    answers = iter([Answer(*parts) for parts in zip(tokens, logprobs, ended, strict=True)])
    return [[next(answers) for _ in row] for row in seeds]


def _uniforms(seed: int | None, count: int) -> numpy.ndarray:
    """The random numbers of one answer, in [0, 1); not a number for a greedy one."""
    import numpy

    return numpy.full(count, numpy.nan) if seed is None else numpy.random.Generator(numpy.random.Philox(seed)).random(count)


def _draw(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One token for each row by inverting the distribution function at `uniform`, and its log-probability at T = 1; the likeliest token
    where `uniform` is not a number.

    The vocabulary is searched in two levels (blocks of 128, then inside the block), which gives the same draw as a running sum over
    all of it at a fraction of the cost. Args: logits (B, V); uniform (B,). Returns two tensors (B,).
    """
    import torch

    flat, block = logits, 128
    padding = -flat.shape[-1] % block
    if padding:
        flat = torch.nn.functional.pad(flat, (0, padding), value=float("-inf"))
    blocks = flat.unflatten(-1, (-1, block))
    peaks = blocks.amax(-1)
    peak = peaks.amax(-1, keepdim=True)
    mass = (blocks - peak.unsqueeze(-1)).exp_()
    sums = mass.sum(-1, dtype=torch.float32)
    log_total = sums.sum(-1).log()
    rows = torch.arange(len(flat), device=flat.device)
    if temperature != 1:
        mass = ((blocks - peak.unsqueeze(-1)) / temperature).exp()
        sums = mass.sum(-1, dtype=torch.float32)
    running = sums.cumsum(-1)
    target = uniform.nan_to_num(0.0) * running[:, -1]
    # Rounding may put the target at or past the end of a sum: then the last block, and the last token in it, with any mass is taken.
    last_block = (running < running[:, -1:]).sum(-1)
    which = torch.minimum(torch.searchsorted(running, target.unsqueeze(-1), right=True).squeeze(-1), last_block)
    before = torch.where(which > 0, running[rows, (which - 1).clamp(min=0)], torch.zeros_like(target))
    inner = mass[rows, which].float().cumsum(-1)
    last = block - 1 - (mass[rows, which] > 0).flip(-1).int().argmax(-1)
    inside = torch.minimum(torch.searchsorted(inner, (target - before).unsqueeze(-1), right=True).squeeze(-1), last)
    likeliest = peaks.argmax(-1)
    greedy = likeliest * block + blocks[rows, likeliest].argmax(-1)
    chosen = torch.where(uniform.isnan(), greedy, which * block + inside)
    logprobs = flat[rows, chosen].float() - peak.squeeze(-1).float() - log_total
    return chosen, logprobs


class _Layer:
    """One layer's keys and values, (B, H, capacity, D), filled from the left in place: the interface of transformers' cache layers."""

    is_sliding = False
    is_compileable = False
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, capacity: int):
        self.capacity, self.length, self.allocated = capacity, 0, False

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_args, **_kwargs) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.allocated:
            self.allocate(len(keys), keys)
        stop = self.length + keys.shape[-2]
        self.keys[:, :, self.length : stop] = keys
        self.values[:, :, self.length : stop] = values
        self.length = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def allocate(self, rows: int, like: torch.Tensor) -> None:
        shape = (rows, like.shape[1], self.capacity, like.shape[-1])
        self.keys, self.values, self.allocated = like.new_zeros(shape), like.new_zeros(shape), True

    def keep(self, rows: torch.Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def get_seq_length(self, *_args) -> int:
        return self.length


class _Rows:
    """The answers under way. Row i of the batch is answer `names[i]`; rows of one tree stand together."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int):
        import torch

        self.model, self.device, self.prompts, self.counts = model, model.device, prompts, counts
        self.trees = pack(prompts)
        self.common = [_common(tree) for tree in self.trees]
        self.tail = max(
            len(prompts[member]) - common for tree, common in zip(self.trees, self.common, strict=True) for member in tree.members
        )
        self.first_name = [sum(counts[:prompt]) for prompt in range(len(prompts))]
        order = [prompt for tree in self.trees for prompt in tree.members]
        self.names = torch.tensor([self.first_name[prompt] + k for prompt in order for k in range(counts[prompt])], device=self.device)
        self.tree_of = torch.tensor([t for t, tree in enumerate(self.trees) for prompt in tree.members for _ in range(counts[prompt])])
        self.lengths = torch.tensor([len(prompts[prompt]) for prompt in order for _ in range(counts[prompt])], device=self.device)
        own = self.lengths - torch.tensor(self.common, device=self.device)[self.tree_of.to(self.device)]
        self.mask = torch.arange(self.tail + max_new_tokens, device=self.device)[None] >= self.tail - own[:, None]
        self.alive = torch.ones(len(self.names), dtype=torch.bool, device=self.device)
        self.steps = 0
        self.cache = _cache(model, self.tail + max_new_tokens)
        self.prefixes: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def prefill(self) -> torch.Tensor:
        """Run the prompts as trees and lay out their keys; logits of the first token, (B, V)."""
        import torch

        last, row = [], 0
        for tree, common in zip(self.trees, self.common, strict=True):
            nodes = _cache(self.model, len(tree.tokens))
            tokens, depth, mask = (torch.from_numpy(value).to(self.device)[None] for value in (tree.tokens, tree.depth, tree.mask))
            hidden = self._hidden(nodes, input_ids=tokens, attention_mask=mask[None], position_ids=depth, tree=TreeMask(mask[0]))[0]
            shared = torch.from_numpy(tree.nodes[0][:common]).to(self.device)
            self.prefixes.append([(layer.keys[:, :, shared], layer.values[:, :, shared]) for layer in nodes.layers])
            for prompt, path in zip(tree.members, tree.nodes, strict=True):
                stop = row + self.counts[prompt]
                self._place(row, stop, nodes.layers, torch.from_numpy(path[common:]).to(self.device))
                last += [hidden[path[-1]]] * self.counts[prompt]
                row = stop
        return self._logits(torch.stack(last))

    def _place(self, start: int, stop: int, sources: list[_Layer], nodes: torch.Tensor) -> None:
        """Copy a prompt's own positions into its rows, against the right edge of the tail."""
        for layer, source in zip(self.cache.layers, sources, strict=True):
            if not layer.allocated:
                layer.allocate(len(self.names), source.keys)
                layer.length = self.tail
            layer.keys[start:stop, :, self.tail - len(nodes) : self.tail] = source.keys[:, :, nodes]
            layer.values[start:stop, :, self.tail - len(nodes) : self.tail] = source.values[:, :, nodes]

    def decode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token to each row, (B,); logits of the next one, (B, V)."""
        self.steps += 1
        hidden = self._hidden(
            self.cache,
            input_ids=tokens[:, None],
            attention_mask=self.mask[:, None, None, : self.tail + self.steps],
            position_ids=(self.lengths + self.steps - 1)[:, None],
            shared_prefix=self._shared(),
        )
        return self._logits(hidden[:, 0])

    def compact(self, tokens: torch.Tensor) -> torch.Tensor:
        """Drop the rows that have ended, once that saves a quarter. Returns the tokens of the rows that stay."""
        rows = self.alive.nonzero().flatten()
        if len(rows) > 0.75 * len(self.alive):
            return tokens
        for layer in self.cache.layers:
            layer.keep(rows)
        self.names, self.lengths, self.mask, self.alive = (value[rows] for value in (self.names, self.lengths, self.mask, self.alive))
        self.tree_of = self.tree_of[rows.cpu()]
        return tokens[rows]

    def _shared(self) -> SharedPrefix:
        """Which rows share which prefix now."""
        shared = SharedPrefix()
        for tree, layers in enumerate(self.prefixes):
            rows = (self.tree_of == tree).nonzero().flatten()
            if len(rows) and self.common[tree]:
                shared.groups.append((int(rows[0]), int(rows[-1]) + 1, layers))
        return shared

    def _hidden(self, cache, **inputs) -> torch.Tensor:
        return self.model.base_model(past_key_values=cache, use_cache=True, **inputs).last_hidden_state

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        head = self.model.get_output_embeddings()
        assert head is not None  # a causal model has one
        return head(hidden)


def _common(tree: Tree) -> int:
    """How many tokens all sequences of a tree begin with; all of a lone sequence."""
    shortest = min(map(len, tree.nodes))
    first, last = tree.nodes[0][:shortest], tree.nodes[-1][:shortest]  # in lexicographic order, so these two differ first
    different = (first != last).nonzero()[0]
    return int(different[0]) if len(different) else shortest


def _cache(model: PreTrainedModel, capacity: int) -> Any:
    """transformers' Cache with a `_Layer` for each layer; Any, since its annotations know the layers of transformers alone."""
    from transformers import Cache

    layers: list[Any] = [_Layer(capacity) for _ in range(model.config.get_text_config().num_hidden_layers)]
    return Cache(layers=layers)
