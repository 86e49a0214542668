"""Run many token sequences that share beginnings as trees, so that each shared beginning is computed once.

Questions on one database share the schema; the chosen and the rejected answer share the question; so do the K answers of a group. A causal
model's hidden state at a position depends only on the tokens before it, so a batch of sequences can be run as the tree of its distinct
prefixes: one node for each distinct (prefix, token), a mask that lets a node see its ancestors and itself, and the depth as its position.
The result is exact, and gradients through a shared node add up as they should. (Prefix sharing for pairs: arXiv 2410.20305.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy


@dataclass(frozen=True, slots=True)
class Tree:
    """One packed row of N nodes: tokens (N,), depth (N,), mask (N, N) True where node i sees node j; `members` names its sequences."""

    tokens: numpy.ndarray
    depth: numpy.ndarray
    mask: numpy.ndarray
    members: list[int]
    nodes: list[numpy.ndarray]  # for each member the node of each of its positions


def pack(sequences: Sequence[Sequence[int]], max_nodes: int = 1024) -> list[Tree]:
    """Pack sequences into trees of at most `max_nodes` nodes (a longer single sequence gets a tree of its own).

    Neighbours in lexicographic order share a tree while they share at least half of the shorter one's tokens: attention is
    quadratic in the nodes of a tree, so sequences with little in common are better kept apart.
    """
    arrays = [numpy.asarray(sequence, dtype=numpy.int64) for sequence in sequences]
    order = sorted(range(len(arrays)), key=lambda index: arrays[index].tolist())
    trees: list[Tree] = []
    group: list[int] = []
    shared: list[int] = []
    size = 0
    for index in order:
        common = _common(arrays[group[-1]], arrays[index]) if group else 0
        fresh = len(arrays[index]) - common
        if group and (2 * common < min(len(arrays[index]), len(arrays[group[-1]])) or size + fresh > max_nodes):
            trees.append(_tree(arrays, group, shared))
            group, shared, size, common, fresh = [], [], 0, 0, len(arrays[index])
        group.append(index)
        shared.append(common)
        size += fresh
    if group:
        trees.append(_tree(arrays, group, shared))
    return trees


def _common(first: numpy.ndarray, second: numpy.ndarray) -> int:
    length = min(len(first), len(second))
    different = numpy.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def _tree(arrays: list[numpy.ndarray], group: list[int], shared: list[int]) -> Tree:
    """Build one tree from lexicographically sorted sequences; `shared[i]` tokens of sequence i stand in sequence i-1 too."""
    size = sum(len(arrays[index]) - common for index, common in zip(group, shared, strict=True))
    tokens = numpy.empty(size, dtype=numpy.int64)
    depth = numpy.empty(size, dtype=numpy.int64)
    mask = numpy.zeros((size, size), dtype=bool)
    nodes: list[numpy.ndarray] = []
    start = 0
    for index, common in zip(group, shared, strict=True):
        sequence = arrays[index]
        stop = start + len(sequence) - common
        own = numpy.arange(start, stop)
        path = numpy.concatenate([nodes[-1][:common], own]) if nodes else own
        tokens[start:stop] = sequence[common:]
        depth[start:stop] = numpy.arange(common, len(sequence))
        mask[start:stop, path[:common]] = True
        mask[start:stop, start:stop] = numpy.tri(stop - start, dtype=bool)
        nodes.append(path)
        start = stop
    return Tree(tokens, depth, mask, list(group), nodes)
