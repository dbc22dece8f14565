"""Greedy merging: nodes join the clusters that they read from, one after the other.

Definition: a node can join a cluster that it reads from unless that cluster also leads to it
through another block that it reads from. Clusters that it can join do not lead to each other, so
it joins them all, and they become one.
Guarantee: clusters are connected and convex, the quotient is acyclic, and no two clusters can be
merged, because a path between two blocks never disappears.
Cost: near-linear while of two blocks that a node reads one leads straight to the other, or both
are at one level; otherwise a search among the blocks between them, so quadratic at worst.
Source: contraction of edges whose ends no longer path joins, as in multilevel acyclic partitioning
(Herrmann et al., 2019).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from partitioner.graph import Region, by_first, inverse

Fits = Callable[[Sequence[int]], bool]  # True if nodes are within the limits of one cluster


def forward(region: Region, fits: Fits | None = None) -> list[int]:
    """The block of each node, by one of its nodes, merged in the order of numbers."""
    return _merged(region.preds, range(len(region.preds)), region.capable, fits)


def backward(region: Region, fits: Fits | None = None) -> list[int]:
    """The same against the order of numbers, with every edge turned round."""
    order = range(len(region.preds) - 1, -1, -1)
    return _merged(region.succs, order, region.capable, fits)


def maximal(region: Region, label: Sequence[int]) -> list[int]:
    """The partition after clusters that can be merged have been."""
    smaller, where = region.contracted(label)
    block = forward(smaller)
    return by_first([block[i] for i in where])


def within(region: Region, label: Sequence[int], fits: Fits) -> list[int]:
    """Clusters within limits: those beyond are dissolved, and their nodes merged anew."""
    _, where = region.contracted(label)
    beyond = {i for i, v in enumerate(inverse(where)) if len(v) > 1 and not fits(v)}
    smaller, where = region.contracted([-v - 1 if i in beyond else i for v, i in enumerate(where)])
    inside = inverse(where)

    def fit(blocks: Sequence[int]) -> bool:
        return fits([v for b in blocks for v in inside[b]])

    best = min(forward(smaller, fit), backward(smaller, fit), key=lambda block: len(set(block)))
    return [best[i] for i in where]


def _merged(
    reads: Sequence[Sequence[int]], order: Iterable[int], capable: bytearray, fits: Fits | None
) -> list[int]:
    """The block of each node, by one of its nodes, after all of `order`.

    reads  what each node reads; or what reads it, to merge backwards
    order  a topological order along those
    """
    blocks = _Blocks(len(reads))
    block, others = blocks.block, blocks.others
    for v in order:
        row = reads[v]
        if not row:
            continue
        b = block[row[0]]
        if capable[v] and capable[b] and fits is None:
            for u in row:
                if block[u] != b:
                    break
            else:  # as below, which it is most often
                block[v] = b
                others[b].append(v)
                continue
        read = {block[u] for u in row}
        joined = [b for b in read if capable[b]] if capable[v] else []
        if joined and len(read) > 1:
            joined = blocks.unfollowed(joined, read)
        if joined and fits is not None:
            joined = blocks.fitting(joined, v, fits)
        blocks.add(v, read, joined)
    return block


class _Blocks:
    """An acyclic graph of blocks that grows by nodes; a block goes by one of its nodes."""

    def __init__(self, size: int) -> None:
        self.block = list(range(size))  # of each node
        self.others: defaultdict[int, list[int]] = defaultdict(list)  # of a block
        self._following: defaultdict[int, set[int]] = defaultdict(set)
        self._preceding: defaultdict[int, set[int]] = defaultdict(set)
        self._level = [0] * size  # less than the levels of all blocks that follow

    def _size(self, b: int) -> tuple[int, int]:
        """The nodes and edges of a block, and its name to break ties."""
        edges = [len(rows.get(b, ())) for rows in (self._following, self._preceding)]
        return len(self.others.get(b, ())) + sum(edges), b

    def fitting(self, joined: Sequence[int], v: int, fits: Fits) -> list[int]:
        """The blocks that a node may join within limits, those of most nodes first."""
        found, nodes = [], [v]
        for b in sorted(joined, key=lambda b: (-len(self.others[b]), b)):
            if fits([*nodes, b, *self.others[b]]):
                found.append(b)
                nodes += [b, *self.others[b]]
        return found

    def unfollowed(self, candidates: Sequence[int], blocks: set[int]) -> list[int]:
        """Those candidates that lead to none of the other `blocks`."""
        level, following = self._level, self._following
        highest = max([level[b] for b in blocks])
        return [
            b
            for b in candidates
            if level[b] == highest
            or b not in following
            or (following[b].isdisjoint(blocks) and not self._reaches(b, blocks))
        ]

    def _reaches(self, start: int, blocks: set[int]) -> bool:
        """Return True if a path leads from block `start` to a higher one of `blocks`.

        Searched from both ends, each step at the one that has fewer edges to follow.
        """
        level, edges = self._level, (self._following, self._preceding)
        low, high = level[start], max([level[b] for b in blocks])
        seen = [{start}, {b for b in blocks if level[b] > low}]  # from either end
        rims = list(seen)  # those met last
        while True:
            rows = [[edges[k][b] for b in rims[k] if b in edges[k]] for k in (0, 1)]
            here = min((0, 1), key=lambda k: sum(map(len, rows[k])))
            found = set().union(*rows[here])
            if not found.isdisjoint(seen[1 - here]):
                return True
            rims[here] = {b for b in found - seen[here] if low < level[b] < high}
            if not rims[here]:
                return False
            seen[here] |= rims[here]

    def add(self, v: int, read: set[int], joined: Sequence[int]) -> None:
        """Add node `v`, which reads from blocks `read`, to those in `joined`, which become one."""
        level = self._level
        height = max([level[b] + (b not in joined) for b in read])
        block = max(joined, key=self._size) if len(joined) > 1 else joined[0] if joined else v
        for b in joined or [v]:
            if level[b] < height:
                self._lift(b, height)
            if b != block:
                self._absorb(block, b)
        if joined:
            self.block[v] = block
            self.others[block].append(v)
        for b in read.difference(joined):
            self._following[b].add(block)
            self._preceding[block].add(b)

    def _absorb(self, block: int, other: int) -> None:
        """Make the members of `other` members of `block`."""
        moved = [other, *self.others.pop(other, ())]
        for v in moved:
            self.block[v] = block
        self.others[block] += moved
        rows = self._following, self._preceding
        for edges, back in (rows, rows[::-1]):
            if row := edges.pop(other, None):
                edges[block] |= row
                for b in row:
                    back[b].remove(other)
                    back[b].add(block)

    def _lift(self, block: int, height: int) -> None:
        """Raise the level of a block, and those of blocks that follow it."""
        stack = [(block, height)]
        while stack:
            b, least = stack.pop()
            if self._level[b] < least:
                self._level[b] = least
                stack += [(other, least + 1) for other in self._following.get(b, ())]
