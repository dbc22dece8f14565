"""Partitions to start from: nodes merged in many orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from random import Random

from partitioner.merging import merged
from partitioner.plan import narrow_order
from partitioner.region import Region

LATEST = 0.7  # how often a shuffled order goes on with the node that became ready last


def starts(region: Region) -> Iterator[list[int]]:
    """Partitions by `merged`, each as a block for every node, without end.

    In the order of numbers, in that of names, in one that keeps few nodes live, then in shuffled
    orders (always the same ones); each forwards, and backwards with every edge turned round.
    """
    last = len(region.preds) - 1
    yield merged(region, range(last + 1))
    turned = region.turned()
    yield [last - b for b in reversed(merged(turned, range(last + 1)))]
    for order, back in zip(_orders(region), _orders(turned), strict=True):
        yield merged(region, order)
        yield [last - b for b in reversed(merged(turned, back))]


def _orders(region: Region) -> Iterator[list[int]]:
    """Topological orders, without end."""
    succs = region.succs()
    yield _by_rank(region, succs)
    yield narrow_order(region.preds, succs)
    random = Random(len(succs))
    while True:
        yield _shuffled(region.preds, succs, random)


def _by_rank(region: Region, succs: Sequence[Sequence[int]]) -> list[int]:
    """The topological order that always goes on with the lowest rank."""
    missing = [len(row) for row in region.preds]
    ready = [(region.rank[v], v) for v, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        v = heappop(ready)[1]
        order.append(v)
        for w in succs[v]:
            missing[w] -= 1
            if not missing[w]:
                heappush(ready, (region.rank[w], w))
    return order


def _shuffled(
    preds: Sequence[Sequence[int]], succs: Sequence[Sequence[int]], random: Random
) -> list[int]:
    """A topological order, often going on from the node before."""
    missing = [len(row) for row in preds]
    ready = [v for v, count in enumerate(missing) if not count]
    order = []
    while ready:
        last = len(ready) - 1
        i = last if random.random() < LATEST else random.randrange(len(ready))
        ready[i], ready[last] = ready[last], ready[i]
        v = ready.pop()
        order.append(v)
        for w in succs[v]:
            missing[w] -= 1
            if not missing[w]:
                ready.append(w)
    return order
