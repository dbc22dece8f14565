"""Mergings: sound, in the same way as the plain ones, and named by their nodes."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from partitioner import violations
from partitioner.clusters import sequence
from partitioner.graph import indexed
from partitioner.merging import backward, forward, maximal, within
from tests.partitioner.baselines import merged
from tests.partitioner.graphs import capable_of, dag_of, random_capable, random_dag, random_layers


def drawn(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice([random_dag, random_layers])(rng, rng.randint(1, 60))
    return dag, random_capable(rng, dag)


def clusters_of(graph, block: list[int]) -> list[set]:
    """The clusters of a partition by number, as sets of nodes."""
    sets: dict[int, set] = {}
    for v, b in enumerate(block):
        if graph.region.capable[v]:
            sets.setdefault(b, set()).update(graph.members([v]))
    return list(sets.values())


@pytest.mark.parametrize("merge", [forward, backward])
@pytest.mark.parametrize("seed", range(60))
def test_mergings_are_sound_and_blocks_are_named_by_their_nodes(seed, merge):
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    block = merge(graph.region)
    assert all(block[b] == b for b in block)
    found = [graph.members(members) for members in sequence(graph.region, block)]
    assert violations(dag, capable, found) == []


@pytest.mark.parametrize("seed", range(60))
def test_maximal_merges_what_can_be_merged(seed):
    """From single nodes that is all of the work, and there is nothing left to merge."""
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    block = maximal(graph.region, range(len(dag)))
    assert all(block[b] == b for b in block)
    found = [graph.members(members) for members in sequence(graph.region, block)]
    assert violations(dag, capable, found) == []


@pytest.mark.parametrize("seed", range(60))
def test_forward_and_backward_merge_as_the_plain_way_does_in_the_same_order(seed):
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    order = graph.members(range(len(dag)))
    for merge, reads, nodes in ((forward, dag.pred, order), (backward, dag.succ, order[::-1])):
        found = {frozenset(c) for c in clusters_of(graph, merge(graph.region))}
        assert found == {frozenset(c) for c in merged(reads, nodes, capable)}


def test_within_limits_dissolves_only_what_is_beyond_them():
    """Of a-b-c and d-e, the first is beyond two nodes."""
    dag = dag_of("a b c X d e")
    graph = indexed(dag, capable_of(dag))
    block = within(graph.region, forward(graph.region), lambda nodes: len(nodes) <= 2)
    assert sorted(sorted(c) for c in clusters_of(graph, block)) == [["a", "b"], ["c"], ["d", "e"]]


def test_forward_and_backward_on_a_drawn_graph():
    """b can be with a or with d, not with both: X keeps them apart."""
    dag = dag_of("a b d, a X d")
    graph = indexed(dag, capable_of(dag))
    assert {frozenset(c) for c in clusters_of(graph, forward(graph.region))} == {
        frozenset("ab"),
        frozenset("d"),
    }
    assert {frozenset(c) for c in clusters_of(graph, backward(graph.region))} == {
        frozenset("a"),
        frozenset("bd"),
    }
