"""Plans of a search: a topological order, and which nodes are live."""

from __future__ import annotations

import random

import pytest

from partitioner.graph import Region, indexed
from partitioner.search import planned, single_bits
from partitioner.tensors import Tensor
from tests.partitioner.graphs import random_capable, random_layers


@pytest.mark.parametrize("against", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_live_nodes_own_a_bit_each(seed, against):
    """Against the edges, a node reads what reads it along them."""
    rng = random.Random(seed)
    dag = random_layers(rng, rng.randint(1, 40))
    region = indexed(dag, random_capable(rng, dag)).region
    reads, read_by = (region.succs, region.preds) if against else (region.preds, region.succs)
    live: dict[int, int] = {}  # node by bit
    left = [len(row) for row in read_by]
    for step in planned(region, [], 10**6, against=against):
        assert step.bit not in live
        assert sorted(live[bit] for bit in single_bits(step.reads)) == list(reads[step.node])
        live[step.bit] = step.node
        for u in reads[step.node]:
            left[u] -= 1
        dying = {live.pop(bit) for bit in single_bits(step.dying)}
        assert dying == {u for u in (*reads[step.node], step.node) if not left[u]}
    assert not live


def test_a_region_with_too_many_live_nodes_has_no_plan():
    """Of a chain of three nodes, one and one are live after a step, none after the last."""
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    assert len(planned(chain, [], 5)) == 3
    assert planned(chain, [], 4) == []


def test_tensors_are_open_until_the_last_node_that_touches_them():
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    steps = planned(chain, [Tensor(1, (0, 1), True), Tensor(1, (0, 2), True)], 100)
    assert [step.touches for step in steps] == [0b11, 0b01, 0b10]
    assert [step.open for step in steps] == [0b11, 0b10, 0]


def test_clusters_that_must_follow_a_live_node():
    """0 → 1 (incapable) → 2: whatever holds node 0 or 1, one more cluster follows."""
    steps = planned(Region([[], [0], [1]], bytearray([1, 0, 1])), [], 100)
    assert [step.tails for step in steps] == [((1, 1),), ((1, steps[1].bit),), ()]
