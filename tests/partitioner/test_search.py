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
from tests.partitioner import graphs
from tests.partitioner.program import better_than


def prepared(seed: int):
    """A region, its tensors and its plan."""
    rng = random.Random(seed)
    dag = graphs.random_layers(rng, rng.randint(2, 25))
    graph = indexed(dag, graphs.random_capable(rng, dag))
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    return graph.region, tensors, planned(graph.region, tensors, 10**6)


@each("seed", range(40))
def test_the_cost_is_that_of_the_partition_and_nothing_below_it_is_found(seed):
    region, tensors, steps = prepared(seed)
    found = search(steps, tensors, 10**6, None)
    assert found.cost == graphs.priced(region, tensors, found.block)
    assert found.least == inf
    assert search(steps, tensors, 10**6, found.cost).cost is None


@each("seed", range(12))
def test_against_the_edges_the_lowest_cost_is_the_same(seed):
    region, tensors, steps = prepared(seed)
    against = planned(region, tensors, 10**6, against=True)
    found = search(against, tensors, 10**6, None)
    assert found.cost == graphs.priced(region, tensors, found.block)
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


CLUSTERS, BYTES = 0.9999, 0.999  # of graphs of up to 9 nodes
PROGRAM = 0.99  # of graphs of 20 to 40 nodes
SMALL = (graphs.random_small, graphs.random_small, graphs.random_dag, graphs.random_layers)


def small(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice(SMALL)(rng, rng.randint(1, 9))
    return dag, graphs.random_capable(rng, dag)


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(20_000), marks=pytest.mark.long)])
def test_small_graphs_by_exhaustion(seeds):
    more, heavier = [], []
    for seed in seeds:
        dag, capable = small(seed)
        found, best = graphs.cost_of(dag, partition(dag, capable)), graphs.exhaustive(dag, capable)
        if found[0] != best[0]:
            more.append(seed)
        elif found != best:
            heavier.append(seed)
    assert len(more) <= (1 - CLUSTERS) * len(seeds), f"too many clusters at seeds {more}"
    assert len(heavier) <= (1 - BYTES) * len(seeds), f"too many bytes at seeds {heavier}"


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(20_000), marks=pytest.mark.long)])
def test_fewest_clusters_that_need_not_be_connected(seeds):
    """Always; the bytes are not certain, and held to the same share as those of connected ones."""
    heavier = []
    for seed in seeds:
        dag, capable = small(seed)
        clusters = partition(dag, capable, connected=False)
        found, best = (
            graphs.cost_of(dag, clusters),
            graphs.exhaustive(dag, capable, connected=False),
        )
        assert found[0] == best[0], f"seed {seed}"
        assert violations(dag, capable, clusters, connected=False) == [], f"seed {seed}"
        if found != best:
            heavier.append(seed)
    assert len(heavier) <= (1 - BYTES) * len(seeds), f"too many bytes at seeds {heavier}"


def middling(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice([graphs.random_dag, graphs.random_layers])(rng, rng.randint(20, 40))
    return dag, graphs.random_capable(rng, dag)


def test_a_search_against_the_edges_finds_what_one_along_them_misses():
    """Graph 91 has 290 bytes by searches along the edges alone; an integer program finds 238."""
    dag, capable = middling(91)
    assert graphs.cost_of(dag, partition(dag, capable)) == (3, 238)


@pytest.mark.parametrize("seeds", [range(29, 34), pytest.param(range(200), marks=pytest.mark.long)])
def test_middling_graphs_by_an_integer_program(seeds):
    """A graph that the program is not done with after some seconds does not count as reached."""
    missed = []
    for seed in seeds:
        dag, capable = middling(seed)
        found = graphs.cost_of(dag, partition(dag, capable))
        try:
            better = better_than(dag, capable, found)
        except TimeoutError:
            missed.append((seed, found, "unknown"))
            continue
        if better:
            missed.append((seed, found, better))
    assert len(missed) <= (1 - PROGRAM) * len(seeds), f"seed, found, better: {missed}"
