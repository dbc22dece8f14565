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
    """

    steps: list[Step]
    tensors: Sequence[Tensor]
    unit: int


@dataclass(frozen=True, slots=True)
class Order:
    """A region in the order in which a plan goes through it.

    nodes    in a topological order that keeps few of them live
    reads    what each node reads, or, backwards, what reads it
    read_by  the reverse
    ends     for each place, the nodes that are live no longer
    width    live nodes, summed over the places: what one state of a search costs
    """

    nodes: list[int]
    reads: Sequence[Sequence[int]]
    read_by: Sequence[Sequence[int]]
    ends: list[list[int]]
    width: int


def ordered(region: Region, *, backwards: bool = False) -> Order:
    """A narrow order from the sources of a region, or from its sinks with every edge turned round.

    Cost: O((n + m) log n).
    """
    reads, read_by = region.preds, region.succs()
    if backwards:
        reads, read_by = read_by, reads
    nodes = narrow_order(reads, read_by)
    place = places(nodes)
    ends: list[list[int]] = [[] for _ in nodes]
    width = 0
    for i, v in enumerate(nodes):
        last = max((place[w] for w in read_by[v]), default=i)
        ends[last].append(v)
        width += last - i + 1
    return Order(nodes, reads, read_by, ends, width)


def planned(region: Region, tensors: Sequence[Tensor], order: Order) -> Plan:
    """The plan for a region. It has the same partitions at the same costs in any order.

    Cost: the width of the order.
    """
    bits = _bits(order)
    touches, opened = _touches(tensors, places(order.nodes))
    tails = _tails(region.capable, order, bits)
    steps = [
        Step(
            v,
            bits[v],
            region.capable[v],
            sum(bits[u] for u in order.reads[v]),
            sum(bits[u] for u in order.ends[i]),
            touches[i],
            opened[i],
            tail,
        )
        for i, (v, tail) in enumerate(zip(order.nodes, tails, strict=True))
    ]
    return Plan(steps, tensors, 1 + 2 * sum(t.size * len(t.touched) for t in tensors))


def places(nodes: Sequence[int]) -> list[int]:
    """The place of each node."""
    place = [0] * len(nodes)
    for i, v in enumerate(nodes):
        place[v] = i
    return place


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


def _bits(order: Order) -> list[int]:
    """A bit for each node that no other node has while both are live."""
    bits = [0] * len(order.nodes)
    free: list[int] = []
    used = 0
    for v, ends in zip(order.nodes, order.ends, strict=True):
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
    capable: Sequence[int], order: Order, bits: Sequence[int]
) -> list[tuple[tuple[int, int], ...]]:
    """For each step, how many further clusters must follow the cluster of each live node.

    Each time a path leaves an incapable node for a capable one, it enters a new cluster.
    """
    tail = [0] * len(bits)
    later: list[list[int]] = [[] for _ in bits]  # by readers not yet placed, the last one first
    for v in reversed(order.nodes):
        tail[v] = later[v][-1] if later[v] else 0
        for u in order.reads[v]:
            most = tail[v] + (1 if capable[v] and not capable[u] else 0)
            later[u].append(max([most, *later[u][-1:]]))
    by_length: dict[int, int] = {}  # bits of the live nodes with a tail, by its length
    rows = []
    for v in order.nodes:
        _recount(by_length, bits[v], 0, later[v][-1] if later[v] else 0)
        for u in order.reads[v]:
            before = later[u].pop()
            _recount(by_length, bits[u], before, later[u][-1] if later[u] else 0)
        rows.append(tuple(sorted(by_length.items(), reverse=True)))
    return rows


def _recount(by_length: dict[int, int], bit: int, before: int, after: int) -> None:
    """Move a bit from one length to another; length 0 has no entry."""
    if before == after:
        return
    if before:
        by_length[before] ^= bit
        if not by_length[before]:
            del by_length[before]
    if after:
        by_length[after] = by_length.get(after, 0) | bit
