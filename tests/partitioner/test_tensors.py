"""Tensors and the bytes that cross borders, against a count by the definition."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from partitioner import border_bytes
from partitioner.graph import indexed
from partitioner.tensors import Tensor, cheapest, region_tensors, renamed
from tests.partitioner.exact import cost_of as cost_by_definition
from tests.partitioner.graphs import priced, random_capable, random_small


@pytest.mark.parametrize("seed", range(60))
def test_bytes_and_prices_by_the_definition(seed):
    """Prices differ from the bytes of the graph by the same for every division into clusters."""
    rng = random.Random(seed)
    dag = random_small(rng, rng.randint(2, 12))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    differences = set()
    for _ in range(5):
        block = [
            v if not flag else -rng.randint(1, 3) for v, flag in enumerate(graph.region.capable)
        ]
        homes = {block[graph.number[node]] for node in capable}
        clusters = [[v for v in capable if block[graph.number[v]] == home] for home in homes]
        size = border_bytes(dag, clusters)
        assert (len(clusters), size) == cost_by_definition(dag, clusters)
        count, price = priced(graph.region, tensors, block)
        assert count == len(clusters)
        differences.add(size - price)
    assert len(differences) == 1


@pytest.mark.parametrize("seed", range(60))
def test_the_cheapest_way_of_each_part_by_the_definition(seed):
    """Of two parts and nodes between them, each decided as if the other were not."""
    rng = random.Random(seed)
    dag = random_small(rng, rng.randint(4, 14))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    numbers = rng.sample(range(len(dag)), len(dag))
    parts = [sorted(numbers[0::3]), sorted(numbers[1::3])]
    ways = [[[rng.randint(0, 2) for _ in part] for _ in range(3)] for part in parts]
    chosen = cheapest(dag, graph, parts, ways)
    nodes = list(graph.number)
    for part, blocks, best in zip(parts, ways, chosen, strict=True):
        sizes = []
        for block in blocks:
            homes = {nodes[v]: b for v, b in zip(part, block, strict=True) if nodes[v] in capable}
            clusters = [[v for v in homes if homes[v] == b] for b in {*homes.values()}]
            sizes.append(border_bytes(dag, clusters))
        assert sizes[best] == min(sizes)
        assert best == sizes.index(min(sizes))


def test_the_price_of_a_tensor():
    """Free inside one cluster if no one else has it; else every cluster that touches it pays."""
    assert [Tensor(4, (0, 1, 2), internal=True).price(k) for k in (1, 2, 3)] == [0, 8, 12]
    assert [Tensor(4, (0, 1, 2), internal=False).price(k) for k in (1, 2, 3)] == [4, 8, 12]


def test_tensors_of_contracted_nodes_become_one_or_vanish():
    tensors = [Tensor(4, (0, 1), True), Tensor(2, (0, 2), True), Tensor(3, (1, 2), True)]
    assert renamed(tensors, [0, 0, 1]) == [Tensor(5, (0, 1), True)]


def test_a_tensor_without_a_size_is_one_byte_for_all_readers():
    dag = nx.DiGraph([("a", "b"), ("a", "c")])
    assert border_bytes(dag, ["a", "b", "c"]) == 3
