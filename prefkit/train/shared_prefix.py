"""Let TRL's trainers run a padded batch as trees of shared prefixes.

TRL's losses call `model(input_ids, attention_mask, labels, fused_lm_head=True)`, and that forward calls the model's backbone for the
hidden states. `share_prefixes` wraps the backbone: a right- or left-padded batch without a cache is packed into trees (see
`prefkit.models.prefix_tree`), run, and scattered back to (B, T, H). Policy, reference and precomputed log-probabilities all gain, and no
loss is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

# Layers whose state at a position depends on more than the set of its ancestors cannot be run as a tree.
UNSUITABLE_LAYERS = ("sliding_attention", "chunked_attention", "linear_attention", "conv", "mamba")


def can_share(model: PreTrainedModel) -> str | None:
    """None where prefixes can be shared, else the reason why they cannot."""
    config = model.config.get_text_config()
    unsuitable = sorted({kind for kind in getattr(config, "layer_types", None) or [] if kind in UNSUITABLE_LAYERS})
    if unsuitable:
        return f"the model has layers of the kind {', '.join(unsuitable)}"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return "the model attends through a sliding window"
    if "flash" in str(config._attn_implementation):
        return f"the attention implementation {config._attn_implementation} takes no mask of its own"
    return None


def share_prefixes(model: PreTrainedModel, max_nodes: int = 1024) -> str | None:
    """Wrap the backbone of `model` (a plain causal model, not a PEFT wrapper). Returns None, or the reason why it was left as it is."""
    reason = can_share(model)
    if reason:
        return reason
    backbone = model.base_model
    forward = backbone.forward

    def shared_forward(input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None, **kwargs):
        plain = past_key_values is None and not use_cache and position_ids is None
        if not plain or input_ids is None or len(input_ids) < 2 or attention_mask is None or attention_mask.dim() != 2:
            given = {"position_ids": position_ids, "past_key_values": past_key_values, "use_cache": use_cache, **kwargs}
            return forward(input_ids=input_ids, attention_mask=attention_mask, **given)
        return _run_as_trees(forward, input_ids, attention_mask, max_nodes, kwargs)

    backbone.forward = shared_forward
    return None


def _run_as_trees(forward, input_ids: torch.Tensor, attention_mask: torch.Tensor, max_nodes: int, kwargs: dict):
    import numpy
    import torch
    from transformers.modeling_outputs import BaseModelOutputWithPast

    from prefkit.models.attention import TreeMask
    from prefkit.models.prefix_tree import pack

    device = input_ids.device
    kept = attention_mask.bool().cpu().numpy()
    tokens = input_ids.cpu().numpy()
    index = numpy.zeros(tokens.shape, dtype=numpy.int64)  # padding reads node 0: never scored, no gradient
    hidden, offset = [], 0
    for tree in pack([row[keep] for row, keep in zip(tokens, kept, strict=True)], max_nodes):
        ids, depth, mask = (torch.from_numpy(value).to(device)[None] for value in (tree.tokens, tree.depth, tree.mask))
        output = forward(input_ids=ids, attention_mask=mask[None], position_ids=depth, use_cache=False, tree=TreeMask(mask[0]), **kwargs)
        hidden.append(output.last_hidden_state[0])
        for member, path in zip(tree.members, tree.nodes, strict=True):
            index[member, kept[member]] = path + offset
        offset += len(tree.tokens)
    states = torch.cat(hidden).index_select(0, torch.from_numpy(index).to(device).flatten())
    return BaseModelOutputWithPast(last_hidden_state=states.view(*input_ids.shape, -1))
