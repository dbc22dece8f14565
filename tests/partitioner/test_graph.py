"""Graphs by number: canonical order, contraction, components."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from partitioner.graph import Region, components, indexed, sorted_nodes
from partitioner.search import planned, single_bits
from partitioner.tensors import Tensor
from tests.partitioner.graphs import random_capable, random_dag, random_layers, shuffled


@pytest.mark.parametrize("seed", range(30))
def test_numbers_are_a_topological_order_that_insertion_does_not_change(seed):
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 30))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    assert all(graph.number[u] < graph.number[v] for u, v in dag.edges)
    assert graph.region.preds == [
        tuple(sorted(graph.number[u] for u in dag.pred[node])) for node in graph.number
    ]
    assert graph.members(v for v, flag in enumerate(graph.region.capable) if flag) == tuple(
        node for node in graph.number if node in capable
    )
    assert indexed(shuffled(rng, dag), capable) == graph


@pytest.mark.parametrize("seed", range(30))
def test_contraction_by_networkx(seed):
    """Of consecutive pairs in topological order, which leaves the graph acyclic."""
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 20))
    graph = indexed(dag, dag)
    label = [v // 2 for v in range(len(dag))]
    region, where = graph.region.contracted(label)
    numbers = nx.relabel_nodes(dag, graph.number)
    peer = nx.DiGraph((where[u], where[v]) for u, v in numbers.edges if where[u] != where[v])
    assert {(u, v) for v, row in enumerate(region.preds) for u in row} == set(peer.edges)
    assert all(u < v for u, v in peer.edges)
    assert [where[a] == where[b] for a in range(len(dag)) for b in range(len(dag))] == [
        label[a] == label[b] for a in range(len(dag)) for b in range(len(dag))
    ]


def test_a_part_keeps_the_edges_between_its_nodes():
    region = Region([[], [0], [0, 1], [2]], bytearray([1, 0, 1, 1]))
    assert region.part([0, 2, 3]) == Region([[], [0], [1]], bytearray([1, 1, 1]))
    assert region.succs == [(1, 2), (2,), (3,), ()]


@pytest.mark.parametrize("seed", range(30))
def test_components_by_networkx(seed):
    rng = random.Random(seed)
    peer = nx.gnm_random_graph(20, rng.randint(0, 25), seed=seed)
    names = components(20, peer.edges)
    for piece in nx.connected_components(peer):
        assert {names[v] for v in piece} == {min(piece)}


def test_nodes_of_one_kind_sort_by_themselves_and_others_by_type():
    assert sorted_nodes([(2,), 10, "b", 9, "a", (1,)]) == [10, 9, "a", "b", (1,), (2,)]


# Plans of a search: a topological order, and which nodes are live


@pytest.mark.parametrize("against", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_live_nodes_own_a_bit_each(seed, against):
    """Against the edges, a node reads what reads it along them."""
    rng = random.Random(seed)
    dag = random_layers(rng, rng.randint(1, 40))
    region = indexed(dag, random_capable(rng, dag)).region
    reads, read_by = (region.succs, region.preds) if against else (region.preds, region.succs)
    live: dict[int, int] = {}  # node by bit
    left = [len(row) for row in read_by]
    for step in planned(region, [], 10**6, against=against):
        assert step.bit not in live
        assert sorted(live[bit] for bit in single_bits(step.reads)) == list(reads[step.node])
        live[step.bit] = step.node
        for u in reads[step.node]:
            left[u] -= 1
        dying = {live.pop(bit) for bit in single_bits(step.dying)}
        assert dying == {u for u in (*reads[step.node], step.node) if not left[u]}
    assert not live


def test_a_region_with_too_many_live_nodes_has_no_plan():
    """Of a chain of three nodes, one and one are live after a step, none after the last."""
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    assert len(planned(chain, [], 5)) == 3
    assert planned(chain, [], 4) == []


def test_tensors_are_open_until_the_last_node_that_touches_them():
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    steps = planned(chain, [Tensor(1, (0, 1), True), Tensor(1, (0, 2), True)], 100)
    assert [step.touches for step in steps] == [0b11, 0b01, 0b10]
    assert [step.open for step in steps] == [0b11, 0b10, 0]


def test_clusters_that_must_follow_a_live_node():
    """0 → 1 (incapable) → 2: whatever holds node 0 or 1, one more cluster follows."""
    steps = planned(Region([[], [0], [1]], bytearray([1, 0, 1])), [], 100)
    assert [step.tails for step in steps] == [((1, 1),), ((1, steps[1].bit),), ()]
