"""Grouped-query attention without copying keys and values, as an attention implementation that transformers can be asked for.

With a mask, the stock `sdpa` implementation repeats every key and value head once for each query head of its group (three times for
SmolLM2), which costs more than the attention itself when few queries meet a long cache. Here the query heads of a group are laid
along the query axis instead: (B, H·G, Q, D) x (B, H, S, D) becomes (B, H, G·Q, D) x (B, H, S, D). The numbers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

NAME = "prefkit_grouped"


def register() -> str:
    """Make the implementation known to transformers and return its name. May be called any number of times."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME


def grouped_attention(module, query, key, value, attention_mask=None, dropout: float = 0.0, scaling: float | None = None, **kwargs):
    """Attention in the signature of transformers' AttentionInterface.

    Args: query (B, Hq, Q, D); key, value (B, Hkv, S, D); attention_mask None (causal), boolean or additive, (B or 1, 1, Q, S).
    Returns the output (B, Q, Hq, D) and None for the weights.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    batch, heads, length, width = query.shape
    groups = heads // key.shape[1]
    if attention_mask is None and length > 1:
        attention_mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=query.device).tril(key.shape[2] - length)[None, None]
    if groups > 1:
        query = query.reshape(batch, heads // groups, groups * length, width)
        if attention_mask is not None:
            attention_mask = attention_mask.repeat(1, 1, groups, 1)
    output = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, dropout_p=dropout if module.training else 0.0, scale=scaling)
    return output.reshape(batch, heads, length, width).transpose(1, 2).contiguous(), None
