"""Decisions without a search: components, regions and units; and minimum cuts."""

import random
from fractions import Fraction
from itertools import pairwise, product
from math import inf

import networkx as nx
import pytest

from partitioner import reduction
from partitioner.graph import Region, indexed
from partitioner.reduction import joints, reduced, shortened
from partitioner.tensors import TensorUse
from partitioner.worth import FAR, NEAR, Network, near_side
from tests.cases import each
from tests.partitioner.graphs import ancestors, capable_of, dag_of, random_capable, random_dag


@pytest.mark.parametrize("landmarks", [reduction.LANDMARKS, 1])
@each("seed", range(40))
def test_joints_are_the_edges_that_no_incapable_node_goes_around(seed, landmarks, monkeypatch):
    """With few landmarks some other edges count as joints, too."""
    monkeypatch.setattr(reduction, "LANDMARKS", landmarks)
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 25))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    bit = {v: 1 << i for i, v in enumerate(capable)}
    strictly = ancestors(dag, bit)[1]
    expected = {
        (graph.number[v], graph.number[u])
        for u, v in dag.edges
        if u in bit and v in bit and not strictly[v] & bit[u]
    }
    found = set(joints(graph.region))
    assert found >= expected
    assert landmarks == 1 or found == expected


def test_regions_are_components_that_wait_for_each_other():
    r"""a-b and c-d wait for each other; e, behind Z, is a cluster by itself.

    a --- b → Z → e      a → X → d
    c --- d              c → Y → b
    """
    dag = dag_of("a b Z e, c d, a X d, c Y b")
    graph = indexed(dag, capable_of(dag))
    component, parts = reduced(graph.region)
    assert [set(graph.members(part)) for part in parts] == [set("abcdXY")]
    assert component[graph.number["a"]] == component[graph.number["b"]]
    assert component[graph.number["e"]] not in {component[graph.number[v]] for v in "abcd"}


def test_a_chain_is_one_unit_up_to_where_it_is_cut_at_the_lowest_price():
    """a - b - c - d, a and d apart: the tensor of b costs least."""
    region = Region([[], [0], [1], [2]], bytearray([1, 1, 1, 1]))
    tensors = [TensorUse(size, (v, v + 1), True) for v, size in enumerate((5, 1, 5))]
    smaller, _, unit = shortened(region, tensors)
    assert len(smaller.preds) < 4
    assert unit[0] == unit[1]
    assert unit[2] == unit[3]


@each("seed", range(40))
def test_units_are_alike_capable_and_leave_a_dag(seed):
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 25))
    region = indexed(dag, random_capable(rng, dag)).region
    smaller, _, unit = shortened(region, [])
    assert all(smaller.capable[i] == region.capable[v] for v, i in enumerate(unit))
    edges = {(unit[u], unit[v]) for v, row in enumerate(region.preds) for u in row}
    assert nx.is_directed_acyclic_graph(nx.DiGraph((a, b) for a, b in edges if a != b))


NODES = 6
NUMBERS = (0.1, 0.2, 0.3, 0.7, 1 / 3, 1e-9, 1e9)  # their sums round in floating point


def drawn(rng: random.Random) -> Network:
    """A network of a few nodes with capacities that tie, or would but for rounding."""
    network = Network()
    nodes = [network.node() for _ in range(NODES)]
    for node in nodes:
        if rng.random() < 0.7:
            network.arc(*rng.choice([(NEAR, node), (node, FAR)]), rng.choice(NUMBERS))
    for _ in range(rng.randrange(2 * NODES)):
        tail, head = rng.sample(nodes, 2)
        network.arc(tail, head, rng.choice([*NUMBERS, inf]), rng.choice([0.0, 0.3]))
    return network


def cost(network: Network, near: tuple[int, ...]) -> Fraction:
    """The cost of a cut."""
    arcs = zip(network.capacities, network.heads, range(len(network.heads)), strict=True)
    parted = [c for c, head, i in arcs if near[network.heads[i ^ 1]] and not near[head]]
    return Fraction(10**30) if inf in parted else sum(map(Fraction, parted), Fraction(0))


@pytest.mark.parametrize("seed", range(8))
def test_of_the_cheapest_cuts_the_one_with_most_on_the_near_side(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        network = drawn(rng)
        every = [(1, 0, *rest) for rest in product((0, 1), repeat=NODES)]
        least = min(cost(network, near) for near in every)
        most = max((near for near in every if cost(network, near) == least), key=sum)
        assert tuple(near_side(network)) == most


def chain(capacities: list[float]) -> Network:
    """near → a → b → … → far."""
    network = Network()
    pairs = pairwise([NEAR, *(network.node() for _ in capacities[1:]), FAR])
    for (tail, head), capacity in zip(pairs, capacities, strict=True):
        network.arc(tail, head, capacity)
    return network


def test_a_chain_is_cut_at_the_last_of_its_cheapest_arcs() -> None:
    """near -2→ a -1→ b -3→ c -1→ d -2→ far"""
    assert list(near_side(chain([2, 1, 3, 1, 2]))) == [1, 0, 1, 1, 1, 0]


def test_a_long_chain_is_cut_too() -> None:
    """Every second node gains 1 on the near side, the others on the far side; an arc costs 2.

    It is cheapest to part behind any node that gains on the near side: the last is node 9,998,
    which leaves two and the far node. What flows by shortest ways alone would look at all arcs
    for each of thousands of lengths.
    """
    network = chain([2.0] * 10_000)
    for node in range(2, 10_000, 2):
        network.arc(NEAR, node, 1.0)
        network.arc(node + 1, FAR, 1.0)
    near = near_side(network)
    assert [v for v, flag in enumerate(near) if not flag] == [FAR, 9_999, 10_000]
