"""Work, memory and growth of the time, on the graphs of the benchmark, which measures time."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bench.partitioner import MEMORY, memory, seconds
from bench.partitioner_families import FAMILIES, drawn
from partitioner import clusters, partition
from partitioner.search import search

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
