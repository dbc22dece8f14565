"""`partition` beside simpler ways, and its answer is always sound."""

from __future__ import annotations

import random

import pytest

from partitioner import border_bytes, partition, violations
from tests.partitioner import graphs
from tests.partitioner.baselines import by_connected_waves, by_single_nodes, by_waves


def test_waves_on_a_drawn_graph():
    """X reads from a and waits; c, ready later in the first wave, is in a's group without an edge.

    a → X → b     c → d
    """
    dag = graphs.dag_of("a X b, c d")
    assert by_waves(dag, graphs.capable_of(dag)) == [["a", "c", "d"], ["b"]]
    pieces = [{"a"}, {"c", "d"}, {"b"}]
    assert [set(piece) for piece in by_connected_waves(dag, graphs.capable_of(dag))] == pieces


def test_single_nodes_on_a_drawn_graph():
    """d can join b, and not a, which leads to it through X."""
    dag = graphs.dag_of("a X d, a d, b d")
    assert by_single_nodes(dag, graphs.capable_of(dag)) == [["a"], ["b", "d"]]


def middle(seed: int):
    """50 to 500 nodes, as many edges for each node in large graphs as in small ones."""
    rng = random.Random(seed)
    size = round(50 * 10 ** rng.random())
    if rng.random() < 0.5:
        dag = graphs.random_dag(rng, size, density=rng.choice([0.7, 1, 1.5, 2, 4]) * 2 / size)
    else:
        dag = graphs.random_layers(rng, size)
    return rng, dag, graphs.random_capable(rng, dag)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(2000), marks=pytest.mark.long)])
def test_never_worse_than_simpler_ways(seeds):
    """Never more clusters, and with as many never more bytes."""
    for seed in seeds:
        rng, dag, capable = middle(seed)
        clusters = partition(dag, capable)
        found = len(clusters), border_bytes(dag, clusters)
        assert violations(dag, capable, clusters) == [], f"seed {seed}"
        for way in (by_connected_waves, by_single_nodes):
            other = way(dag, capable)
            worse = found > (len(other), border_bytes(dag, other))
            assert not worse, f"seed {seed}: {way.__name__}"
        assert len(by_waves(dag, capable)) == len(partition(dag, capable, connected=False))
        if seed % 10 == 0:
            assert partition(graphs.shuffled(rng, dag), capable) == clusters, f"seed {seed}"
