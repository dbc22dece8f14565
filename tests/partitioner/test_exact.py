"""The oracles, on graphs checked by hand, against brute force and against each other."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from partitioner import border_bytes
from tests.partitioner.exact import cost_of, exhaustive
from tests.partitioner.graphs import capable_of, dag_of, random_capable, random_small
from tests.partitioner.program import better_than


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("a b c", (1, 0)),
        ("a X b", (2, 2)),  # the tensors of a and of X, once each
        ("a b, c d", (2, 0)),
        ("a b, a X b", (2, 3)),  # those of X and of a; that of a is read by X and by b's cluster
        ("a b d, a X d", (2, 3)),  # ab and d: that of a goes to X and to d, or a and bd: the same
        ("a b, c d, a X d, c Y b", (3, 5)),  # ab, c, d: a to X; c to Y and to d; X to d; Y to b
        ("a b c d, a X d", (2, 3)),
        ("X a, X b", (2, 2)),
    ],
)
def test_drawn_graphs(text, cost):
    dag = dag_of(text)
    assert exhaustive(dag, capable_of(dag)) == cost


def all_partitions(nodes):
    """Every partition of a list into sets."""
    if not nodes:
        yield []
        return
    for rest in all_partitions(nodes[1:]):
        yield [{nodes[0]}, *rest]
        for i, members in enumerate(rest):
            yield [*rest[:i], members | {nodes[0]}, *rest[i + 1 :]]


def is_allowed(dag, clusters, connected):
    name = {v: i for i, members in enumerate(clusters) for v in members}
    edges = [(name.get(u, (u,)), name.get(v, (v,))) for u, v in dag.edges]
    acyclic = nx.is_directed_acyclic_graph(nx.DiGraph([(a, b) for a, b in edges if a != b]))
    pieces = [nx.is_weakly_connected(dag.subgraph(members)) for members in clusters]
    return acyclic and (all(pieces) or not connected)


@pytest.mark.parametrize("connected", [True, False])
def test_exhaustion_by_brute_force(connected):
    for seed in range(30):
        rng = random.Random(seed)
        dag = random_small(rng, 6)
        capable = random_capable(rng, dag)
        partitions = all_partitions(sorted(capable))
        allowed = [c for c in partitions if is_allowed(dag, c, connected)]
        for clusters in allowed:
            assert cost_of(dag, clusters)[1] == border_bytes(dag, clusters), f"seed {seed}"
        best = min(cost_of(dag, clusters) for clusters in allowed)
        assert exhaustive(dag, capable, connected=connected) == best, f"seed {seed}"


def test_program_by_exhaustion():
    for seed in range(25):
        rng = random.Random(seed)
        dag = random_small(rng, rng.randint(1, 8))
        capable = random_capable(rng, dag) | {0}
        clusters, size = exhaustive(dag, capable)
        assert better_than(dag, capable, (clusters, size)) is None, f"seed {seed}"
        assert better_than(dag, capable, (clusters, size + 1)) == (clusters, size), f"seed {seed}"
        assert better_than(dag, capable, (clusters + 1, 0)) == (clusters, size), f"seed {seed}"


def test_program_forbids_pieces():
    """Two islands between X and Y: one cluster would be in two pieces."""
    dag = dag_of("X a Y, X b Y")
    assert better_than(dag, capable_of(dag), (2, 4)) is None
    assert better_than(dag, capable_of(dag), (2, 5)) == (2, 4)
