"""A plan for searching a region: the order of its nodes, and what changes at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from partitioner.region import Region
from partitioner.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a plan. Nodes that are still read later are *live* and own one bit each.

    node      the node
    bit       its bit
    capable   1 if it may be taken
    reads     bits of what it reads
    dying     bits of nodes that are not read after this step
    touches   tensors that it touches, a bit each
    open      tensors that a later node touches
    tails     (clusters, bits): live nodes that so many further clusters must follow, most first
    """

    node: int
    bit: int
    capable: int
    reads: int
    dying: int
    touches: int
    open: int
    tails: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A region as steps.

    steps    one for each node, in a topological order that keeps few nodes live
    tensors  by bit
    unit     what one cluster counts in a cost: more than any number of bytes
    width    live nodes, summed over the steps: what one state of a search costs
    """

    steps: list[Step]
    tensors: list[Tensor]
    unit: int
    width: int


def planned(region: Region, tensors: list[Tensor], *, backwards: bool = False) -> Plan:
    """The plan for a region, from its sources, or from its sinks with every edge turned round.

    Both have the same partitions at the same costs; a search that must drop states finds
    different ones.
    Cost: O((n + m) log n), and the sum of the live nodes.
    """
    reads, read_by = region.preds, region.succs()
    if backwards:
        reads, read_by = read_by, reads
    order = narrow_order(reads, read_by)
    place = [0] * len(order)
    for i, v in enumerate(order):
        place[v] = i
    dying: list[list[int]] = [[] for _ in order]
    for v in order:
        dying[max((place[w] for w in read_by[v]), default=place[v])].append(v)
    bits = _bits(order, dying)
    touches, opened = _touches(tensors, place)
    tails = _tails(region.capable, order, reads, read_by)
    steps = [
        Step(
            v,
            bits[v],
            region.capable[v],
            sum(bits[u] for u in reads[v]),
            sum(bits[u] for u in dying[i]),
            touches[i],
            opened[i],
            _by_tail(tails[i], bits),
        )
        for i, v in enumerate(order)
    ]
    unit = 1 + 2 * sum(tensor.size * len(tensor.touched) for tensor in tensors)
    return Plan(steps, tensors, unit, sum(1 + len(tail) for tail in tails))


def narrow_order(reads: Sequence[Sequence[int]], read_by: Sequence[Sequence[int]]) -> list[int]:
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


def _bits(order: Sequence[int], dying: Sequence[Sequence[int]]) -> list[int]:
    """A bit for each node that no other node has while both are live."""
    bits = [0] * len(order)
    free: list[int] = []
    used = 0
    for v, ends in zip(order, dying, strict=True):
        if free:
            bits[v] = heappop(free)
        else:
            bits[v] = 1 << used
            used += 1
        for u in ends:
            heappush(free, bits[u])
    return bits


def _touches(tensors: Sequence[Tensor], place: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each step, the tensors it touches and those that later steps touch, as bits."""
    touches, closed = [0] * len(place), [0] * len(place)
    for k, tensor in enumerate(tensors):
        steps = [place[v] for v in tensor.touched]
        for i in steps:
            touches[i] |= 1 << k
        closed[max(steps)] |= 1 << k
    opened = []
    still = (1 << len(tensors)) - 1
    for bits in closed:
        still &= ~bits
        opened.append(still)
    return touches, opened


def _tails(
    capable: Sequence[int],
    order: Sequence[int],
    reads: Sequence[Sequence[int]],
    read_by: Sequence[Sequence[int]],
) -> list[dict[int, int]]:
    """For each step, how many further clusters must follow the cluster of each live node.

    Each time a path leaves an incapable node for a capable one, it enters a new cluster.
    """
    tail = [0] * len(order)
    later: list[list[int]] = [[] for _ in order]  # by readers not yet placed, the last one first
    for v in reversed(order):
        tail[v] = later[v][-1] if later[v] else 0
        for u in reads[v]:
            most = tail[v] + (1 if capable[v] and not capable[u] else 0)
            later[u].append(max([most, *later[u][-1:]]))
    live: dict[int, int] = {}
    rows = []
    for v in order:
        if later[v]:
            live[v] = later[v][-1]
        for u in reads[v]:
            later[u].pop()
            if later[u]:
                live[u] = later[u][-1]
            else:
                del live[u]
        rows.append(dict(live))
    return rows


def _by_tail(tails: dict[int, int], bits: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Bits of the live nodes by length of tail, longest first, without those of none."""
    by_tail: dict[int, int] = {}
    for v, length in tails.items():
        if length:
            by_tail[length] = by_tail.get(length, 0) | bits[v]
    return tuple(sorted(by_tail.items(), reverse=True))
