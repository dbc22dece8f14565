"""The oracles, on graphs checked by hand, against brute force and against each other."""

import random

import networkx as nx
import pytest

from partitioner import border_bytes, partition, violations
from tests.partitioner import graphs
from tests.partitioner.graphs import cost_of, exhaustive
from tests.partitioner.program import better_than
from tests.partitioner.test_search import small


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
    dag = graphs.dag_of(text)
    assert exhaustive(dag, graphs.capable_of(dag)) == cost


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
        dag = graphs.random_small(rng, 6)
        capable = graphs.random_capable(rng, dag)
        partitions = all_partitions(sorted(capable))
        allowed = [c for c in partitions if is_allowed(dag, c, connected)]
        for clusters in allowed:
            assert cost_of(dag, clusters)[1] == border_bytes(dag, clusters), f"seed {seed}"
        best = min(cost_of(dag, clusters) for clusters in allowed)
        assert exhaustive(dag, capable, connected=connected) == best, f"seed {seed}"


def test_program_by_exhaustion():
    for seed in range(25):
        rng = random.Random(seed)
        dag = graphs.random_small(rng, rng.randint(1, 8))
        capable = graphs.random_capable(rng, dag) | {0}
        clusters, size = exhaustive(dag, capable)
        assert better_than(dag, capable, (clusters, size)) is None, f"seed {seed}"
        assert better_than(dag, capable, (clusters, size + 1)) == (clusters, size), f"seed {seed}"
        assert better_than(dag, capable, (clusters + 1, 0)) == (clusters, size), f"seed {seed}"


def test_program_forbids_pieces():
    """Two islands between X and Y: one cluster would be in two pieces."""
    dag = graphs.dag_of("X a Y, X b Y")
    assert better_than(dag, graphs.capable_of(dag), (2, 4)) is None
    assert better_than(dag, graphs.capable_of(dag), (2, 5)) == (2, 4)


# `violations` finds each way of being wrong, and names it


def found(text, *clusters, **options):
    dag = graphs.dag_of(text)
    return violations(dag, graphs.capable_of(dag), clusters, **options)


@pytest.mark.parametrize(
    ("text", "clusters", "sentence"),
    [
        ("a b", ["ab", ""], "cluster 1 is empty"),
        ("a b", ["abc"], "cluster 0 holds 'c', which is not in the graph"),
        ("a X", ["aX"], "cluster 0 holds 'X', which is not capable"),
        ("a b", ["ab", "b"], "'b' is in cluster 0 and again in cluster 1"),
        ("a b", ["a"], "'b' is in no cluster"),
        ("a, b", ["ab"], "cluster 0 is not connected: nothing in it joins 'a' and 'b'"),
        ("a X b", ["b", "a"], "cluster 0 runs before cluster 1, which it waits for"),
        ("a b", ["ba"], "cluster 0 lists 'b' before 'a', which it reads"),
        ("a b, a X b", ["ab"], "cluster 0 is not convex: a path leaves it to 'X' and comes back"),
        ("a b, c d, a X d, c Y b", ["ab", "cd"], "clusters [0, 1] wait for each other"),
        ("a b", ["a", "b"], "clusters 0 and 1 can be merged"),
    ],
)
def test_each_violation_is_named(text, clusters, sentence):
    assert found(text, *clusters) == [sentence]


def test_a_partition_has_none():
    """a and c cannot be merged: X lies between them."""
    assert found("a b, a X c, b c", "ab", "c") == []


def test_islands_may_share_a_cluster_when_not_connected():
    assert found("a, b", "ab", connected=False) == []
    assert found("a, b", "a", "b", connected=False) == ["clusters 0 and 1 can be merged"]


def test_neighbours_can_be_merged_when_not_connected():
    assert found("a b", "a", "b", connected=False) == ["clusters 0 and 1 can be merged"]


def test_a_cluster_between_two_keeps_them_apart():
    """a-c has an edge, but b lies between; only neighbours b can join either."""
    expected = ["clusters 0 and 1 can be merged", "clusters 1 and 2 can be merged"]
    assert found("a b c, a c", "a", "b", "c") == expected


def test_taken_nodes_are_covered_and_no_others():
    assert found("a b, X c", "ab", taken="ab") == []
    expected = ["cluster 1 holds 'c', which is not to be taken"]
    assert found("a b, X c", "ab", "c", taken="ab") == expected
    assert found("a b, X c", "ab", taken="abc") == ["'c' is in no cluster"]


# The lower bound on the number of clusters, and the proof that there are no fewer


@pytest.mark.parametrize(
    ("text", "count"), [("a b c", 1), ("a X b", 2), ("a b, c d, a X d, c Y b", 3), ("X Y", 0)]
)
@pytest.mark.parametrize("connected", [True, False])
def test_drawn_graphs_are_proven_minimal(text, count, connected):
    dag = graphs.dag_of(text)
    found = partition(dag, graphs.capable_of(dag), connected=connected)
    least = count if connected or count < 3 else 2
    assert (len(found), found.lower_bound, found.minimal) == (least, least, True)


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(5000), marks=pytest.mark.long)])
def test_small_graphs_are_proven_minimal(seeds):
    """And the proof is right: exhaustion finds no fewer."""
    for seed in seeds:
        dag, capable = small(seed)
        found = partition(dag, capable)
        assert found.minimal, f"seed {seed}"
        assert found.lower_bound == exhaustive(dag, capable)[0], f"seed {seed}"


@pytest.mark.parametrize("make", [graphs.random_dag, graphs.random_layers])
def test_a_bound_is_never_above_a_partition(make):
    """Also where nothing is searched: of 300 nodes, some graphs are too wide."""
    proven = []
    for seed in range(12):
        rng = random.Random(seed)
        dag = make(rng, 300) if make is graphs.random_layers else make(rng, 300, density=3 / 300)
        capable = {node for node in dag if rng.random() < 0.85}
        found = partition(dag, capable)
        assert 1 <= found.lower_bound <= len(found), f"seed {seed}"
        proven.append(found.minimal)
    assert any(proven) or make is graphs.random_dag
