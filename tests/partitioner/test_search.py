"""The search of a region, by itself; its optima are tested with `partition`."""

import math
import random
from itertools import pairwise
from math import inf

import networkx as nx
import pytest

from bench.partitioner import MEMORY, memory, seconds
from bench.partitioner_families import FAMILIES, drawn
from partitioner import clusters, partition, violations
from partitioner.graph import indexed
from partitioner.search import CHOSEN, planned, search
from partitioner.tensors import region_tensors
from tests.cases import each
from tests.partitioner.graphs import priced, random_capable, random_layers


def prepared(seed: int):
    """A region, its tensors and its plan."""
    rng = random.Random(seed)
    dag = random_layers(rng, rng.randint(2, 25))
    graph = indexed(dag, random_capable(rng, dag))
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    return graph.region, tensors, planned(graph.region, tensors, 10**6)


@each("seed", range(40))
def test_the_cost_is_that_of_the_partition_and_nothing_below_it_is_found(seed):
    region, tensors, steps = prepared(seed)
    found = search(steps, tensors, 10**6, None)
    assert found.cost == priced(region, tensors, found.block)
    assert found.least == inf
    assert search(steps, tensors, 10**6, found.cost).cost is None


@each("seed", range(12))
def test_against_the_edges_the_lowest_cost_is_the_same(seed):
    region, tensors, steps = prepared(seed)
    against = planned(region, tensors, 10**6, against=True)
    found = search(against, tensors, 10**6, None)
    assert found.cost == priced(region, tensors, found.block)
    assert found.cost == search(steps, tensors, 10**6, None).cost


@each("seed", range(40))
def test_few_states_cost_no_less_and_bound_what_was_missed(seed):
    _, tensors, steps = prepared(seed)
    best, quick = search(steps, tensors, 10**6, None), search(steps, tensors, 2, None)
    assert quick.cost >= best.cost
    assert quick.work <= best.work
    assert min(quick.least, quick.cost[0]) <= best.cost[0]


@pytest.mark.parametrize("width", [CHOSEN, 40])
def test_a_node_that_many_clusters_lead_to_takes_no_exponential_time(width):
    """Every a leads to every b, and a0 → X → b1: one cluster would not be convex."""
    dag = nx.DiGraph((f"a{i}", f"b{j}") for i in range(width) for j in range(width))
    dag.add_edges_from([("a0", "X"), ("X", "b1")])
    capable = set(dag) - {"X"}
    found = partition(dag, capable)
    assert len(found) == 2
    assert violations(dag, capable, found) == []


# Work, memory and growth of the time, on the graphs of the benchmark, which measures time

NODES = 100_000
QUADRATIC = 2.0  # exponent of the time
OVERRUN = 1.5


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", [500, pytest.param(NODES, marks=pytest.mark.long)])
def test_searches_keep_to_their_work(family, nodes, monkeypatch):
    """A search that follows another may take `OVERRUN` of what that one lets expect."""
    used = []

    def counted(*arguments):
        found = search(*arguments)
        used.append(found.work)
        return found

    monkeypatch.setattr(clusters, "search", counted)
    partition(*drawn(family, nodes, 0.3))
    assert sum(used) <= OVERRUN * clusters.work_for(nodes)


def test_work_grows_no_faster_than_the_graph():
    sizes = [clusters.SMALL + 1, 100, 1_000, 5_000, 10_000, 100_000, 1_000_000]
    for a, b in pairwise(sizes):
        assert clusters.work_for(a) <= clusters.work_for(b) <= clusters.work_for(a) * b / a


@pytest.mark.long
@pytest.mark.parametrize("kind", FAMILIES)
def test_memory(kind):
    assert memory(kind, NODES) <= MEMORY


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ladder", "diamonds"])
def test_never_worse_than_quadratic(kind):
    """From 2,000 to 8,000 nodes the time is at most 16 times as long, the better of two."""
    growth = [seconds(kind, 8_000)[1] / seconds(kind, 2_000)[1] for _ in range(2)]
    assert math.log(min(growth), 4) <= QUADRATIC
