"""Packing: nothing is lost, nothing is seen that is not an ancestor, and every shared beginning stands once."""

from __future__ import annotations

import random

import numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prefkit.models.prefix_tree import Tree, pack

Sequences = list[list[int]]

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=9)


@st.composite
def batches(draw: st.DrawFn) -> Sequences:
    """Sequences as they come: some share a long beginning, some nothing, some stand twice, some are the beginning of others."""
    stems = draw(st.lists(tokens, min_size=1, max_size=3))
    tails = draw(st.lists(st.tuples(st.integers(0, len(stems) - 1), st.lists(st.integers(0, 2), max_size=5)), min_size=1, max_size=10))
    return [stems[stem] + tail for stem, tail in tails]


@given(batches(), st.integers(1, 40))
@example([[1, 2, 3]], 1)
@example([[1, 2], [1, 2], [1, 2]], 1024)
@example([[0, 1], [0], [0, 1, 2]], 1024)
@settings(max_examples=300, deadline=None)
def test_every_sequence_is_in_one_tree_and_can_be_read_back(sequences: Sequences, max_nodes: int) -> None:
    trees = pack(sequences, max_nodes)
    assert sorted(member for tree in trees for member in tree.members) == list(range(len(sequences)))
    for tree in trees:
        for member, path in zip(tree.members, tree.nodes, strict=True):
            assert tree.tokens[path].tolist() == sequences[member]
            assert tree.depth[path].tolist() == list(range(len(path)))


@given(batches(), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_a_node_sees_exactly_its_ancestors_and_itself(sequences: Sequences, max_nodes: int) -> None:
    for tree in pack(sequences, max_nodes):
        assert tree.mask.shape == (len(tree.tokens), len(tree.tokens))
        covered = set()
        for path in tree.nodes:
            for position, node in enumerate(path):
                assert numpy.flatnonzero(tree.mask[node]).tolist() == sorted(path[: position + 1])
                covered.add(int(node))
        assert covered == set(range(len(tree.tokens))), "a node that belongs to no sequence"


@given(batches(), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_nodes_are_the_distinct_prefixes_and_at_most_max_nodes(sequences: Sequences, max_nodes: int) -> None:
    for tree in pack(sequences, max_nodes):
        assert len(tree.tokens) == len(distinct_prefixes(tree, sequences))
        assert len(tree.tokens) <= max_nodes or len(tree.members) == 1


@given(batches(), st.randoms())
@settings(max_examples=100, deadline=None)
def test_the_order_of_the_batch_does_not_matter(sequences: Sequences, draw: random.Random) -> None:
    shuffled = list(sequences)
    draw.shuffle(shuffled)
    assert [tree.tokens.tolist() for tree in pack(shuffled)] == [tree.tokens.tolist() for tree in pack(sequences)]


def test_questions_on_one_schema_share_it_and_strangers_are_kept_apart() -> None:
    schema = list(range(50))
    sequences = [[*schema, 60, 61], [*schema, 60, 62, 63], [*schema, 70], list(range(100, 150))]
    trees = pack(sequences)
    assert sorted(len(tree.members) for tree in trees) == [1, 3]
    assert sum(len(tree.tokens) for tree in trees) == 50 + len([60, 61, 62, 63, 70]) + 50


def distinct_prefixes(tree: Tree, sequences: Sequences) -> set[tuple[int, ...]]:
    return {tuple(sequences[member][:stop]) for member in tree.members for stop in range(1, len(sequences[member]) + 1)}
