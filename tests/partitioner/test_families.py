"""`partition` is nowhere worse than simpler ways, from 100 to 100,000 nodes."""

import networkx as nx
import pytest

from bench.partitioner_families import FAMILIES, drawn, published, without
from bench.partitioner_torch import by_torch
from partitioner import border_bytes, partition
from tests.partitioner.graphs import (
    by_connected_waves,
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
    dag, capable = drawn(family, nodes, declined)
    # joining single nodes takes quadratic time there: each search meets most of the graph
    quadratic = family == "random" and nodes == 100_000 and declined >= 0.1
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
