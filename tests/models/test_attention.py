"""Grouped attention gives the numbers of the stock implementation and of the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.models import attention
from prefkit.models.prefix_tree import Tree, pack

if TYPE_CHECKING:
    import torch

WIDTH = 8
LETTERS = st.integers(0, 2)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "each row its own"])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (1, 9), (4, 9)], ids=["prefill", "one step", "steps over a cache"])
def test_equals_the_definition(groups: int, mask: str, queries: int, keys: int) -> None:
    query, key, value = inputs(groups, queries, keys)
    allowed = masks(mask, queries, keys)
    output, weights = attention.grouped_attention(SimpleNamespace(training=False), query, key, value, allowed, scaling=0.3)
    assert weights is None
    assert output.shape == (2, queries, 2 * groups, WIDTH)
    assert (output - by_definition(query, key, value, allowed, scaling=0.3)).abs().max() < 1e-6


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("mask", ["none", "boolean", "additive"])
def test_equals_stock_sdpa(groups: int, mask: str) -> None:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    query, key, value = inputs(groups, 7, 7)
    allowed = masks(mask, 7, 7)
    module = SimpleNamespace(training=False, is_causal=True, num_key_value_groups=groups)
    stock, _ = sdpa_attention_forward(module, query, key, value, allowed, scaling=0.3)  # type: ignore[arg-type]
    output, _ = attention.grouped_attention(module, query, key, value, allowed, scaling=0.3)
    assert (output - stock).abs().max() < 1e-6


def test_gradients_equal_those_of_the_definition() -> None:
    tensors = inputs(3, 5, 5)
    allowed = masks("boolean", 5, 5)
    module = SimpleNamespace(training=True)
    functions = (lambda q, k, v: attention.grouped_attention(module, q, k, v, allowed)[0], lambda q, k, v: by_definition(q, k, v, allowed))
    for own, defined in zip(*(output_and_gradients(function, tensors) for function in functions), strict=True):
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


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A tree as a batch gives it: a lone row, answers to one question, questions on one schema, rows that begin others."""
    stem = draw(st.lists(LETTERS, min_size=1, max_size=20))
    tails = draw(st.lists(st.lists(LETTERS, max_size=8), min_size=1, max_size=8))
    return draw(st.sampled_from(pack([stem + tail for tail in tails])))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("width", [1, 2, 7, 200])
@given(trees())
@settings(max_examples=60, deadline=None)
def test_a_tree_in_blocks_gives_the_outputs_and_gradients_of_its_whole_mask(groups: int, width: int, tree: Tree) -> None:
    import torch

    mask = torch.from_numpy(tree.mask)
    tensors = [tensor[:1] for tensor in inputs(groups, len(mask), len(mask))]
    module = SimpleNamespace(training=True)

    def in_blocks(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return attention.grouped_attention(module, query, key, value, scaling=0.3, tree=attention.TreeMask(mask, width))[0]

    found = output_and_gradients(in_blocks, tensors)
    expected = output_and_gradients(lambda q, k, v: by_definition(q, k, v, mask, scaling=0.3), tensors)
    for own, defined in zip(found, expected, strict=True):
        assert own.shape == defined.shape
        assert (own - defined).abs().max() < 1e-5


@given(trees(), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_a_block_of_a_tree_looks_at_its_own_nodes_and_their_ancestors_alone(tree: Tree, width: int) -> None:
    import torch

    blocks = attention.TreeMask(torch.from_numpy(tree.mask), width).blocks(2, torch.float32)
    assert [node for start, stop, _, _ in blocks for node in range(start, stop)] == list(range(len(tree.tokens)))
    for start, stop, seen, bias in blocks:
        assert stop - start <= width
        paths = [path[: int(tree.depth[node]) + 1] for node in range(start, stop) for path in tree.nodes if node in path]
        assert seen.tolist() == sorted({int(node) for path in paths for node in path})
        assert bias.shape == (1, 1, 2 * (stop - start), len(seen))


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


def output_and_gradients(function: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The output of a function of query, key and value, and the gradients of a weighted sum of it."""
    import torch

    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = function(*leaves)
    gradients = torch.autograd.grad((output * torch.linspace(-1, 1, output.numel()).view(output.shape)).sum(), leaves)
    return output.detach(), *gradients


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
