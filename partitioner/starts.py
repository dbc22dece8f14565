"""Partitions to start from: nodes merged in many orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from partitioner.merging import merged
from partitioner.plan import narrow_order
from partitioner.region import Region

LATEST = 0.7  # how often a shuffled order goes on with the node that was ready last


def starts(region: Region) -> Iterator[list[int]]:
    """Partitions by `merged`, each as a block for every node, without end.

    In the order of numbers, in an order that keeps few nodes live, then in shuffled orders
    (always the same ones); each forwards, and backwards with every edge turned round.
    """
    size = len(region.preds)
    last = size - 1
    yield merged(region, range(size))
    preds, succs = region.preds, region.succs()
    turned_preds = [[last - w for w in reversed(row)] for row in reversed(succs)]
    turned_succs = [[last - u for u in reversed(row)] for row in reversed(preds)]
    turned = Region(range(size), turned_preds, region.capable[::-1])

    def backwards(order: Sequence[int]) -> list[int]:
        return [last - b for b in reversed(merged(turned, order))]

    yield backwards(range(size))
    yield merged(region, narrow_order(preds, succs))
    yield backwards(narrow_order(turned_preds, turned_succs))
    random = Random(size)
    while True:
        yield merged(region, _shuffled(preds, succs, random))
        yield backwards(_shuffled(turned_preds, turned_succs, random))


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
