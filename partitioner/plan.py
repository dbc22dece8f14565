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
    """One node of a plan. Nodes that are still read later are *live* and own one bit each."""

    node: int
    bit: int
    capable: int  # 1 if it may be taken
    reads: int  # bits of what it reads
    dying: int  # bits of nodes that are not read after this step
    touches: int  # tensors that it touches, a bit each
    open: int  # tensors that a later node touches
    tails: tuple[tuple[int, int], ...]  # further clusters that must follow a live node, its bit


def planned(region: Region, tensors: Sequence[Tensor], most: int) -> list[Step]:
    """The steps of a region; none if their live nodes sum to more than `most`."""
    succs = region.succs
    order = _narrow_order(region.preds, succs)
    place = {v: i for i, v in enumerate(order)}
    last = [max((place[w] for w in succs[v]), default=place[v]) for v in range(len(order))]
    if sum(last) - sum(place.values()) + len(order) > most:
        return []
    ends: list[list[int]] = [[] for _ in order]
    for v in order:
        ends[last[v]].append(v)
    bits = [1 << place[v] for v in range(len(order))]
    touches = [0] * len(order)
    for k, tensor in enumerate(tensors):
        for v in tensor.touched:
            touches[v] |= 1 << k
    steps: list[Step] = []
    later = 0  # tensors that later steps touch
    tail: dict[int, int] = {}  # clusters that must follow each live node, by its later readers
    for v, dying in zip(reversed(order), reversed(ends), strict=True):
        tails = sorted([(length, bits[u]) for u, length in tail.items() if length], reverse=True)
        steps.append(
            Step(
                node=v,
                bit=bits[v],
                capable=region.capable[v],
                reads=sum(bits[u] for u in region.preds[v]),
                dying=sum(bits[u] for u in dying),
                touches=touches[v],
                open=later,
                tails=tuple(tails),
            )
        )
        later |= touches[v]
        own = tail.pop(v, 0)
        for u in region.preds[v]:  # a path from an incapable node to a capable one: a new cluster
            tail[u] = max(tail.get(u, 0), own + (region.capable[v] > region.capable[u]))
    return steps[::-1]


def single_bits(bits: int) -> Iterator[int]:
    """The bits of a number, the lowest first."""
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _narrow_order(reads: Sequence[Sequence[int]], read_by: Sequence[Sequence[int]]) -> list[int]:
    """A topological order that keeps few nodes live.

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
    order: list[int] = []
    while ready:
        v = heappop(ready)[2]
        if place[v] >= 0:
            continue  # an older, worse key of a node that is placed
        place[v] = len(order)
        order.append(v)
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
    return order
