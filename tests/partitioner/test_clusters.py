"""`partition` on drawn graphs and, by `violations`, on random ones."""

import random

import networkx as nx
import pytest

from bench.partitioner_families import FAMILIES, drawn, published, without
from bench.partitioner_torch import by_torch
from partitioner import border_bytes, partition, violations
from tests.partitioner import graphs
from tests.partitioner.graphs import (
    by_connected_waves,
    by_single_nodes,
    by_single_nodes_backwards,
)


def clusters(text, **options):
    dag = graphs.dag_of(text)
    found = partition(dag, graphs.capable_of(dag), **options)
    assert violations(dag, graphs.capable_of(dag), found, **options) == []
    return ["".join(members) for members in found]


def test_diamond():
    r"""All capable: one cluster.

      b
     / \
    a   d
     \ /
      c
    """
    assert clusters("a b d, a c d") == ["abcd"]


def test_bypass():
    r"""The path around a-d through X keeps a and d apart; b joins one of them, not both.

    a - b - d
     \     /
      -X--
    """
    assert clusters("a b d, a X d") in (["ab", "d"], ["a", "bd"])


def test_diamond_with_one_arm_refused():
    assert clusters("a b c, a X c, c d") in (["ab", "cd"], ["a", "bcd"])


def test_two_islands():
    """Nothing joins a-b and c-d: two connected clusters, or one of two pieces."""
    assert clusters("a b, c d") == ["ab", "cd"]
    assert clusters("a b, c d", connected=False) == ["acbd"]


def test_islands_in_different_waves():
    assert clusters("a X b, c d", connected=False) == ["acd", "b"]


def test_two_pairs_that_wait_for_each_other():
    """Either pair may be one cluster, both may not: a-b would wait for c-d and c-d for a-b.

    a --- b      a → X → d
    c --- d      c → Y → b
    """
    assert len(clusters("a b, c d, a X d, c Y b")) == 3


def test_ladder():
    """Rails of alternating columns, then of alternating nodes, which share no edge.

    a → X → c      a → X → c
    ↓   ↓   ↓      ↓   ↓   ↓
    b → Y → d      Y → b → Z
    """
    assert clusters("a X c d, a b Y d, X Y") == ["ab", "cd"]
    alternating = "a X c Z, a Y b Z, X b"
    assert sorted(clusters(alternating)) == ["a", "b", "c"]
    assert sorted(clusters(alternating, connected=False), key=len) in (["a", "cb"], ["a", "bc"])


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(1, 4, [("q",), ("r", "s")]), (4, 1, [("q", "r"), ("s",)])]
)
def test_atoms(first, second, expected):
    r"""Quantized groups as one node each: the cut is where 8 bits cross, not where 32 do.

    q -first- r -second- s      `first` and `second` are bytes
     \-- X --/                  (X keeps q and s apart)
    """
    dag = nx.DiGraph()
    dag.add_edge("q", "r", tensors={"to r": first})
    dag.add_edge("r", "s", tensors={"to s": second})
    dag.add_edge("q", "X", tensors={"to X": 1})
    dag.add_edge("X", "s")
    assert partition(dag, "qrs") == expected


def test_siblings_of_one_input_are_not_connected():
    assert clusters("X a, X b") == ["a", "b"]


def test_nothing_capable_and_nothing_at_all():
    assert clusters("X Y") == []
    assert partition(nx.DiGraph(), []) == []


def test_members_in_topological_order():
    assert clusters("z y x a") == ["zyxa"]


def test_cycle_is_refused():
    with pytest.raises(ValueError, match="the graph has a cycle"):
        partition(nx.DiGraph([(1, 2), (2, 1)]), [1])


def test_stranger_is_refused():
    with pytest.raises(ValueError, match="capable node 3 is not in the graph"):
        partition(nx.DiGraph([(1, 2)]), [3])


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
def test_other_graphs_are_refused(kind):
    with pytest.raises(ValueError, match=f"must be a DiGraph, not a {kind.__name__}"):
        partition(kind([(1, 2)]), [1])


def test_nodes_of_mixed_types():
    dag = nx.DiGraph([("a", 1), (1, ("t", 2)), (("t", 2), frozenset({1}))])
    assert partition(dag, dag) == [("a", 1, ("t", 2), frozenset({1}))]


class Plain:
    """Nodes that have no order and look alike."""

    def __repr__(self):
        return "plain"


class Kept(nx.DiGraph):
    """A graph of a kind of its own."""


def test_nodes_without_an_order_in_a_graph_of_a_kind_of_its_own():
    a, b, c = Plain(), Plain(), Plain()
    dag = Kept([(a, b), (b, c)])
    assert partition(dag, [a, b, c]) == [(a, b, c)]
    assert partition(dag, [a, c]) == [(a,), (c,)]


def test_attributes_that_others_set_are_left_alone():
    dag = nx.DiGraph()
    dag.add_edge("a", "b", tensors={("t", 0): 4, None: 0}, weight=7)
    dag.add_edge("b", "c", tensors={})
    dag.nodes["a"]["inputs"] = {}
    before = nx.DiGraph(dag)
    assert partition(dag, "ac") == [("a",), ("c",)]
    assert nx.utils.graphs_equal(dag, before)


@pytest.mark.parametrize("connected", [True, False])
def test_a_chain_of_any_depth(connected):
    """Far deeper than Python recurses; every 1,000th node is not capable."""
    dag = nx.path_graph(20_000, nx.DiGraph)
    found = partition(dag, [v for v in dag if v % 1000], connected=connected)
    assert [len(members) for members in found] == [999] * 20


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("make", [graphs.random_dag, graphs.random_layers])
@pytest.mark.parametrize(("size", "count"), [(6, 500), (12, 300), (30, 20), (100, 1)])
def test_random_graphs_have_no_violations(make, size, count, connected):
    for seed in range(count):
        rng = random.Random(seed)
        dag = make(rng, size)
        capable = graphs.random_capable(rng, dag)
        found = partition(dag, capable, connected=connected)
        assert violations(dag, capable, found, connected=connected) == [], f"seed {seed}"


@pytest.mark.long
def test_ten_thousand_drawn_graphs_have_no_violations():
    """Each fifth of up to 50 nodes, which take most of the time; the others of up to 30."""
    for seed in range(10_000):
        rng = random.Random(seed)
        size = rng.randint(1, 30 if seed % 5 else 50)
        dag = rng.choice([graphs.random_dag, graphs.random_layers])(rng, size)
        capable = graphs.random_capable(rng, dag)
        assert violations(dag, capable, partition(dag, capable)) == [], f"seed {seed}"


@pytest.mark.parametrize("connected", [True, False])
def test_insertion_order_has_no_say(connected):
    for seed in range(60):
        rng = random.Random(seed)
        dag = graphs.random_dag(rng, rng.randint(2, 25))
        dag = nx.relabel_nodes(dag, {v: f"n{v * 7919 % 41}" for v in dag})
        capable = graphs.random_capable(rng, dag)
        answers = {
            tuple(partition(graphs.shuffled(rng, dag), capable, connected=connected))
            for _ in range(3)
        }
        assert len(answers) == 1, f"seed {seed}"


LINEAR = (by_single_nodes, by_single_nodes_backwards, by_connected_waves)
DECLINED = (0.01, 0.1, 0.25)


def assert_never_worse(dag: nx.DiGraph, capable: set, ways, what: str) -> None:
    """Never more clusters, and with as many never more bytes."""
    clusters = partition(dag, capable)
    assert clusters.lower_bound <= len(clusters), what
    size = border_bytes(dag, clusters)
    for way in ways:
        other = way(dag, capable)
        assert len(clusters) <= len(other), f"{what}: {way.__name__}"
        if len(clusters) == len(other):
            assert size <= border_bytes(dag, other), f"{what}: {way.__name__}"


SIZES = [100, 1000, *(pytest.param(n, marks=pytest.mark.long) for n in (10_000, 100_000))]


@pytest.mark.parametrize("declined", DECLINED)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", SIZES)
def test_families(family, nodes, declined):
    dag, capable = drawn(family, nodes, declined)
    # joining single nodes takes quadratic time there: each search meets most of the graph
    quadratic = family == "random" and nodes == 100_000
    ways = (by_connected_waves,) if quadratic else LINEAR
    assert_never_worse(dag, capable, ways, f"{family}, {nodes} nodes, {declined:.0%} declined")


@pytest.mark.torch
@pytest.mark.parametrize("declined", DECLINED)
@pytest.mark.parametrize("nodes", [30, 100])
def test_pytorchs_partitioner(nodes, declined):
    """CapabilityBasedPartitioner made connected, on the families."""
    pytest.importorskip("torch", reason="PyTorch is not installed; `make test-torch` installs it")
    for family in FAMILIES:
        what = f"{family}, {nodes} nodes, {declined:.0%} declined"
        assert_never_worse(*drawn(family, nodes, declined), (by_torch,), what)


@pytest.mark.parametrize(
    ("ways", "seeds"),
    [
        (LINEAR, 1),
        pytest.param(LINEAR, 10, marks=pytest.mark.long),
        pytest.param((by_torch,), 10, marks=pytest.mark.torch),
    ],
)
@pytest.mark.parametrize("declined", [0.05, 0.1, 0.25])
def test_published_graphs(declined, ways, seeds):
    """Operator graphs of BERT, GNMT, Inception and ResNet, each seed by itself."""
    if by_torch in ways:
        pytest.importorskip("torch", reason="PyTorch is not installed; `make test-torch` does it")
    graphs = list(published())
    if not graphs:
        pytest.skip("the published graphs are not here")
    for name, dag in graphs:
        for seed in range(seeds):
            what = f"{name}, {declined:.0%} declined, seed {seed}"
            assert_never_worse(dag, without(dag, declined, seed), ways, what)
