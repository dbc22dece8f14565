"""A plan for searching a region: the order of its nodes, and what changes at each step.

Definition: a node is live from its own step to the last step of what reads it. The order is
topological, and greedily keeps few nodes live.
Guarantee: a region has the same partitions at the same costs in any order.
Cost: O((n + m) log n), and the sum of the live nodes.
Source: vertex separation orders of dynamic programs over path decompositions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from partitioner.graph import Region
from partitioner.tensors import Tensor


class Step(NamedTuple):
    """One node of a plan, one bit in sets of nodes. Those that are still read later are *live*."""

    node: int
    bit: int
    capable: int  # 1 if it may be taken
    reads: int  # bits of what it reads
    dying: int  # bits of nodes that are not read after this step
    touches: int  # tensors that it touches, a bit each
    open: int  # tensors that a later node touches
    tails: tuple[tuple[int, int], ...]  # further clusters that must follow a live node, its bit


def planned(
    region: Region, tensors: Sequence[Tensor], most: int, *, against: bool = False
) -> list[Step]:
    """The steps of a region; none if their live nodes sum to more than `most`.

    against  the edges, as if every one were turned round
    """
    capable = region.capable
    preds, succs = (region.succs, region.preds) if against else (region.preds, region.succs)
    order = _narrow_order(preds, succs)
    live = total = 0
    for _, dying in order:
        total += live + 1
        live += 1 - dying.bit_count()
    if total > most:
        return []
    bit = {v: 1 << i for i, (v, _) in enumerate(order)}
    touches = [0] * len(order)
    for k, tensor in enumerate(tensors):
        for v in tensor.touched:
            touches[v] |= 1 << k
    steps: list[Step] = []
    later = 0  # tensors that later steps touch
    tail: dict[int, int] = {}  # clusters that must follow each live node, by its later readers
    for v, dying in reversed(order):
        reads = sum(bit[u] for u in preds[v])
        tails = sorted([(length, bit[u]) for u, length in tail.items() if length], reverse=True)
        step = Step(v, bit[v], capable[v], reads, dying, touches[v], later, tuple(tails))
        steps.append(step)
        later |= touches[v]
        own = tail.pop(v, 0)
        for u in preds[v]:  # a path from an incapable node to a capable one: a new cluster
            tail[u] = max(tail.get(u, 0), own + (capable[v] > capable[u]))
    return steps[::-1]


def single_bits(bits: int) -> Iterator[int]:
    """The bits of a number, the lowest first."""
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _narrow_order(
    reads: Sequence[Sequence[int]], read_by: Sequence[Sequence[int]]
) -> list[tuple[int, int]]:
    """A topological order that keeps few nodes live, and bits of those that die at each.

    The next node is the one that adds fewest live nodes; of several, the one that reads what
    was made last; of several, the smallest.
    """
    missing, unread = [len(row) for row in reads], [len(row) for row in read_by]
    place = [-1] * len(reads)

    def key(v: int) -> tuple[int, int, int]:
        ends = sum(unread[u] == 1 for u in reads[v])
        return (bool(read_by[v]) - ends, -max((place[u] for u in reads[v]), default=-1), v)

    ready = [key(v) for v, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[tuple[int, int]] = []
    while ready:
        v = heappop(ready)[2]
        if place[v] >= 0:
            continue  # an older, worse key of a node that is placed
        place[v] = len(order)
        for w in read_by[v]:
            missing[w] -= 1
            if not missing[w]:
                heappush(ready, key(w))
        for u in reads[v]:
            unread[u] -= 1
            if unread[u] == 1:
                w = next(w for w in read_by[u] if place[w] < 0)
                if not missing[w]:
                    heappush(ready, key(w))
        order.append((v, sum(1 << place[u] for u in (*reads[v], v) if not unread[u])))
    return order
