"""A plan for searching a region: the order of its nodes, and what changes at each step.

Definition: a node is live from its own step to the last step of what reads it. The order is
topological, and greedily keeps few nodes live.
Guarantee: a region has the same partitions at the same costs in any order.
Cost: O((n + m) log n), and the sum of the live nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from partitioner.graph import Region
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

    region   the region
    tensors  by bit
    order    its nodes, in a topological order that keeps few of them live
    ends     for each place, the nodes that are live no longer
    width    live nodes, summed over the places: what one state of a search costs
    unit     what one cluster counts in a cost: more than any number of bytes
    """

    region: Region
    tensors: Sequence[Tensor]
    order: list[int]
    ends: list[list[int]]
    width: int
    unit: int

    def steps(self) -> list[Step]:
        """One for each node, in order."""
        bits = self._bits()
        preds, flags = self.region.preds, self.region.capable
        touches, opened = _touches(self.tensors, _places(self.order))
        rows = zip(self.order, self.ends, touches, opened, self._tails(bits), strict=True)
        return [
            Step(
                v,
                bits[v],
                flags[v],
                sum(bits[u] for u in preds[v]),
                sum(bits[u] for u in ends),
                touched,
                still,
                tails,
            )
            for v, ends, touched, still, tails in rows
        ]

    def _bits(self) -> list[int]:
        """A bit for each node that no other node has while both are live."""
        bits = [0] * len(self.order)
        free: list[int] = []
        used = 0
        for v, ends in zip(self.order, self.ends, strict=True):
            if free:
                bits[v] = heappop(free)
            else:
                bits[v] = 1 << used
                used += 1
            for u in ends:
                heappush(free, bits[u])
        return bits

    def _tails(self, bits: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
        """For each step, how many further clusters must follow the cluster of each live node.

        Each time a path leaves an incapable node for a capable one, it enters a new cluster.
        """
        preds, flags = self.region.preds, self.region.capable
        tail = [0] * len(bits)
        later: list[list[int]] = [[0] for _ in bits]  # by readers not yet placed, the last first
        for v in reversed(self.order):
            tail[v] = later[v][-1]
            for u in preds[v]:
                more = tail[v] + (1 if flags[v] and not flags[u] else 0)
                later[u].append(max(more, later[u][-1]))
        by_length: dict[int, int] = {}  # bits of the live nodes with a tail, by its length
        rows = []
        for v in self.order:
            _recount(by_length, bits[v], 0, tail[v])
            for u in preds[v]:
                before = later[u].pop()
                _recount(by_length, bits[u], before, later[u][-1])
            rows.append(tuple(sorted(by_length.items(), reverse=True)))
        return rows


def planned(region: Region, tensors: Sequence[Tensor]) -> Plan:
    """The plan for a region."""
    succs = region.succs()
    order = _narrow_order(region.preds, succs)
    place = _places(order)
    ends: list[list[int]] = [[] for _ in order]
    width = 0
    for i, v in enumerate(order):
        last = max((place[w] for w in succs[v]), default=i)
        ends[last].append(v)
        width += last - i + 1
    unit = 1 + 2 * sum(t.size * len(t.touched) for t in tensors)
    return Plan(region, tensors, order, ends, width, unit)


def _places(nodes: Sequence[int]) -> list[int]:
    """The place of each node."""
    place = [0] * len(nodes)
    for i, v in enumerate(nodes):
        place[v] = i
    return place


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
