"""The share of graphs for which `partition` has the fewest clusters, and then fewest bytes."""

import random

import networkx as nx
import pytest

from partitioner import partition, violations
from tests.partitioner.graphs import (
    cost_of,
    exhaustive,
    random_capable,
    random_dag,
    random_layers,
    random_small,
)
from tests.partitioner.program import better_than

CLUSTERS, BYTES = 0.9999, 0.999  # of graphs of up to 9 nodes
PROGRAM = 0.99  # of graphs of 20 to 40 nodes
SMALL = (random_small, random_small, random_dag, random_layers)


def small(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice(SMALL)(rng, rng.randint(1, 9))
    return dag, random_capable(rng, dag)


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(20_000), marks=pytest.mark.long)])
def test_small_graphs_by_exhaustion(seeds):
    more, heavier = [], []
    for seed in seeds:
        dag, capable = small(seed)
        found, best = cost_of(dag, partition(dag, capable)), exhaustive(dag, capable)
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
        found, best = cost_of(dag, clusters), exhaustive(dag, capable, connected=False)
        assert found[0] == best[0], f"seed {seed}"
        assert violations(dag, capable, clusters, connected=False) == [], f"seed {seed}"
        if found != best:
            heavier.append(seed)
    assert len(heavier) <= (1 - BYTES) * len(seeds), f"too many bytes at seeds {heavier}"


def middling(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice([random_dag, random_layers])(rng, rng.randint(20, 40))
    return dag, random_capable(rng, dag)


def test_a_search_against_the_edges_finds_what_one_along_them_misses():
    """Graph 91 has 290 bytes by searches along the edges alone; an integer program finds 238."""
    dag, capable = middling(91)
    assert cost_of(dag, partition(dag, capable)) == (3, 238)


@pytest.mark.parametrize("seeds", [range(29, 34), pytest.param(range(200), marks=pytest.mark.long)])
def test_middling_graphs_by_an_integer_program(seeds):
    """A graph that the program is not done with after some seconds does not count as reached."""
    missed = []
    for seed in seeds:
        dag, capable = middling(seed)
        found = cost_of(dag, partition(dag, capable))
        try:
            better = better_than(dag, capable, found)
        except TimeoutError:
            missed.append((seed, found, "unknown"))
            continue
        if better:
            missed.append((seed, found, better))
    assert len(missed) <= (1 - PROGRAM) * len(seeds), f"seed, found, better: {missed}"
