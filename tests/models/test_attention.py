"""Grouped attention gives the numbers of the stock implementation and of the definition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from prefkit.models import attention

if TYPE_CHECKING:
    import torch

WIDTH = 8


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "each row its own"])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (1, 9), (4, 9)], ids=["prefill", "one step", "steps over a cache"])
def test_equals_the_definition(groups: int, mask: str, queries: int, keys: int) -> None:
    query, key, value = inputs(groups, queries, keys)
    given = masks(mask, queries, keys)
    output, weights = attention.grouped_attention(SimpleNamespace(training=False), query, key, value, given, scaling=0.3)
    assert weights is None
    assert output.shape == (2, queries, 2 * groups, WIDTH)
    assert (output - by_definition(query, key, value, given, scaling=0.3)).abs().max() < 1e-6


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("mask", ["none", "boolean", "additive"])
def test_equals_stock_sdpa(groups: int, mask: str) -> None:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    query, key, value = inputs(groups, 7, 7)
    given = masks(mask, 7, 7)
    module = SimpleNamespace(training=False, is_causal=True, num_key_value_groups=groups)
    stock, _ = sdpa_attention_forward(module, query, key, value, given, scaling=0.3)  # type: ignore[arg-type]
    output, _ = attention.grouped_attention(module, query, key, value, given, scaling=0.3)
    assert (output - stock).abs().max() < 1e-6


def test_gradients_equal_those_of_the_definition() -> None:
    import torch

    tensors = inputs(3, 5, 5)
    given = masks("boolean", 5, 5)
    gradients = []
    module = SimpleNamespace(training=True)
    for function in (lambda q, k, v: attention.grouped_attention(module, q, k, v, given)[0], lambda q, k, v: by_definition(q, k, v, given)):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        (function(*leaves) * torch.linspace(-1, 1, WIDTH)).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for own, defined in zip(*gradients, strict=True):
        assert (own - defined).abs().max() < 1e-5


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("lengths", [(5, 3), (2, 0), (0, 0)], ids=["two prefixes", "one has none", "none"])
def test_keys_that_rows_share_count_as_if_each_row_had_them(groups: int, lengths: tuple[int, int]) -> None:
    """Rows 0-1 share one beginning, rows 2-4 another, all decode one token over keys of their own."""
    import torch

    generator = torch.Generator().manual_seed(2)
    query = torch.randn(5, 2 * groups, 1, WIDTH, generator=generator)
    key, value = (torch.randn(5, 2, 6, WIDTH, generator=generator) for _ in range(2))
    mask = torch.rand(5, 1, 1, 6, generator=generator) < 0.6
    mask[..., -1] = True
    prefix, expected = attention.SharedPrefix(), torch.empty(5, 1, 2 * groups, WIDTH)
    for (start, stop), length in zip(((0, 2), (2, 5)), lengths, strict=True):
        shared = [torch.randn(1, 2, length, WIDTH, generator=generator) * 2 for _ in range(2)]
        if length:
            other = (torch.full_like(shared[0], 9.0), shared[1])
            prefix.groups.append((start, stop, [other, (shared[0], shared[1])]))
        rows = slice(start, stop)
        keys, values = (
            torch.cat([one.expand(stop - start, -1, -1, -1), own[rows]], 2) for one, own in zip(shared, (key, value), strict=True)
        )
        seen = torch.cat([torch.ones(stop - start, 1, 1, length, dtype=torch.bool), mask[rows]], -1)
        expected[rows] = by_definition(query[rows], keys, values, seen, scaling=0.3)
    layer = SimpleNamespace(training=False, layer_idx=1)
    output, _ = attention.grouped_attention(layer, query, key, value, mask, scaling=0.3, shared_prefix=prefix)
    assert (output - expected).abs().max() < 1e-6


def test_registering_twice_is_no_harm() -> None:
    from transformers import AttentionInterface

    assert attention.register() == attention.register()
    assert AttentionInterface()[attention.NAME] is attention.grouped_attention


def inputs(groups: int, queries: int, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 2 * groups, queries, WIDTH), (2, 2, keys, WIDTH), (2, 2, keys, WIDTH))
    query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
    return query, key, value


def masks(kind: str, queries: int, keys: int) -> torch.Tensor | None:
    import torch

    if kind == "none":
        return None
    allowed = torch.rand(2 if kind == "each row its own" else 1, 1, queries, keys, generator=torch.Generator().manual_seed(1)) < 0.5
    allowed[..., 0] = True
    return torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf")) if kind == "additive" else allowed


def by_definition(query, key, value, mask: torch.Tensor | None, scaling: float | None = None) -> torch.Tensor:
    """Softmax of scaled products, with every key head repeated for its group; without a mask, causal to the end of the keys."""
    import torch

    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-1, -2) * (scaling or WIDTH**-0.5)
    if mask is None:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
    scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return (scores.softmax(-1) @ value).transpose(1, 2)
