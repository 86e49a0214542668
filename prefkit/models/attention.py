"""Attention that computes and copies little: query heads share their group's keys, answers being decoded those of their prompts'
beginning, and the nodes of a prefix tree look at their ancestors alone.

With a mask, the stock `sdpa` implementation repeats every key and value head once for each query head of its group. Here the query heads
of a group are laid along the query axis instead: (B, H·G, Q, D) x (B, H, S, D) becomes (B, H, G·Q, D) x (B, H, S, D).

While decoding, most of what an answer attends to is the same for many answers (the schema, the question). `SharedPrefix` keeps those keys
once for a range of rows; attention over them is one product for all rows together, and is merged with the attention over each row's own
keys by their log-sum-exps, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

NAME = "prefkit_grouped"


@dataclass
class SharedPrefix:
    """Keys and values that rows share. groups: (first row, last row + 1, per layer (keys, values)), each (1, H, L, D), L > 0."""

    groups: list[tuple[int, int, list[tuple[torch.Tensor, torch.Tensor]]]] = field(default_factory=list)


@dataclass
class TreeMask:
    """Which node of a tree sees which, block by block. mask: (N, N) boolean, True where node i sees node j."""

    mask: torch.Tensor
    width: int = 96  # nodes of a block: about two answers and their question
    _blocks: list[tuple[int, int, torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def blocks(self, groups: int, dtype: torch.dtype) -> list[tuple[int, int, torch.Tensor, torch.Tensor]]:
        """(first node, last node + 1, the nodes they see (S,), additive mask (1, 1, groups · nodes, S)); made once for all layers."""
        import torch

        if not self._blocks:
            for start in range(0, len(self.mask), self.width):
                rows = self.mask[start : start + self.width]
                seen = rows.any(0).nonzero().flatten()
                bias = torch.zeros(len(rows), len(seen), dtype=dtype, device=rows.device).masked_fill_(~rows[:, seen], float("-inf"))
                self._blocks.append((start, start + len(rows), seen, bias.repeat(groups, 1)[None, None]))
        return self._blocks


def register() -> str:
    """Make the implementation known to transformers and return its name. May be called any number of times."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME


def grouped_attention(
    module,
    query,
    key,
    value,
    attention_mask=None,
    dropout: float = 0.0,
    scaling: float | None = None,
    shared_prefix: SharedPrefix | None = None,
    tree: TreeMask | None = None,
    **kwargs,
):
    """Attention in the signature of transformers' AttentionInterface.

    Args: query (B, Hq, Q, D); key, value (B, Hkv, S, D); attention_mask None (causal), boolean or additive, (B or 1, 1, Q, S);
    shared_prefix: keys before those in `key`, for decoding (Q = 1); tree: stands in for the mask of a single row.
    Returns the output (B, Q, Hq, D) and None for the weights.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    batch, heads, length, width = query.shape
    groups = heads // key.shape[1]
    if tree is not None:
        from prefkit.models.tree_attention import TreeAttention

        return TreeAttention.apply(query, key, value, tree, scaling or width**-0.5).transpose(1, 2).contiguous(), None
    if attention_mask is None and length > 1:
        attention_mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=query.device).tril(key.shape[2] - length)[None, None]
    query = query.reshape(batch, heads // groups, groups * length, width)
    if attention_mask is not None and groups > 1:
        attention_mask = attention_mask.repeat(1, 1, groups, 1)
    if shared_prefix is None:
        output = scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout if module.training else 0.0, scale=scaling
        )
    else:
        output = _with_prefix(query, key, value, attention_mask, scaling or width**-0.5, shared_prefix, module.layer_idx)
    return output.reshape(batch, heads, length, width).transpose(1, 2).contiguous(), None


def _with_prefix(query, key, value, mask, scale: float, prefix: SharedPrefix, layer: int) -> torch.Tensor:
    """Query (B, H, G, D) over each row's own keys and over the keys its range of rows shares."""
    import torch

    bias = None if mask is None else torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
    output, weight = attend(query, key, value, bias, scale)
    for start, stop, layers in prefix.groups:
        rows = query[start:stop]
        together = rows.transpose(0, 1).flatten(1, 2)[None]  # (1, H, rows · G, D)
        shared, shared_weight = attend(together, *layers[layer], None, scale)
        shared = shared[0].unflatten(1, (stop - start, -1)).transpose(0, 1)
        shared_weight = shared_weight[0].unflatten(1, (stop - start, -1)).transpose(0, 1)
        share = (shared_weight - weight[start:stop]).sigmoid().unsqueeze(-1).to(output.dtype)
        output[start:stop] = output[start:stop] * (1 - share) + shared * share
    return output


def attend(query, key, value, bias, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and the log-sum-exp of its scores, (B, H, Q, D) and (B, H, Q) in float32. `bias`: added to the scores, or None."""
    import torch

    if query.device.type == "cpu":
        output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, False, attn_mask=bias, scale=scale
        )
        return output, weight.float()
    scores = (query @ key.transpose(-1, -2)).float() * scale
    if bias is not None:
        scores = scores + bias
    return scores.softmax(-1).to(value.dtype) @ value, scores.logsumexp(-1)
