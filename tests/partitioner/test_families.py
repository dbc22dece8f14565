"""`partition` is nowhere worse than simpler ways, from 100 to 100,000 nodes."""

from __future__ import annotations

import networkx as nx
import pytest

from bench.partitioner_families import FAMILIES, drawn, published, without
from partitioner import border_bytes, partition
from tests.partitioner.baselines import (
    by_connected_waves,
    by_pairs,
    by_single_nodes,
    by_single_nodes_backwards,
)

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
    """PyTorch's way takes quadratic time and more, so it is only asked at 100 nodes."""
    ways = (*LINEAR, by_pairs) if nodes <= 100 else LINEAR
    dag, capable = drawn(family, nodes, declined)
    assert_never_worse(dag, capable, ways, f"{family}, {nodes} nodes, {declined:.0%} declined")


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(10), marks=pytest.mark.long)])
@pytest.mark.parametrize("declined", [0.05, 0.1, 0.25])
def test_published_graphs(declined, seeds):
    """Operator graphs of BERT, GNMT, Inception and ResNet; PyTorch's way for the smaller ones."""
    graphs = list(published())
    if not graphs:
        pytest.skip("the published graphs are not here")
    for name, dag in graphs:
        for seed in seeds:
            ways = (*LINEAR, by_pairs) if len(dag) < 300 else LINEAR
            what = f"{name}, {declined:.0%} declined, seed {seed}"
            assert_never_worse(dag, without(dag, declined, seed), ways, what)
