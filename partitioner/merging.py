"""Merging: nodes join the clusters that they read from, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from partitioner.region import Region


def merged(region: Region, order: Iterable[int]) -> list[int]:
    """The block of each node after every capable node joined all the clusters that it can.

    A node can join a cluster that it reads from unless that cluster also leads to it through
    another block that it reads from. Clusters that it can join do not lead to each other, so
    it joins them all, and they become one.

    order  a topological order of the region
    Guarantee: clusters are connected and convex, the quotient is acyclic, and no two clusters
    can be merged, because a path between two blocks never disappears.
    Cost: near-linear while of two blocks that a node reads one leads straight to the other, or
    both are at one level; otherwise a search among the blocks between them, so quadratic at worst.
    """
    blocks = _Blocks(len(region.preds))
    block = blocks.block
    for v in order:
        read = {block[u] for u in region.preds[v]}
        joined = [b for b in read if region.capable[b]] if region.capable[v] else []
        if joined and len(read) > 1:
            joined = blocks.unfollowed(joined, read)
        blocks.add(v, read, joined)
    return block


class _Blocks:
    """An acyclic graph of blocks that grows by nodes; a block goes by one of its nodes.

    block      the block of each node
    members    nodes of each block of more than one
    following  nodes in the blocks that follow each block
    preceding  nodes in the blocks that each block follows
    level      of each block: less than the levels of all blocks that follow it
    """

    def __init__(self, size: int) -> None:
        self.block = list(range(size))
        self._members: dict[int, list[int]] = {}
        self._following: dict[int, set[int]] = {}
        self._preceding: dict[int, set[int]] = {}
        self._level = [0] * size
        self._leads: set[tuple[int, frozenset[int]]] = set()  # a block, and some it leads to

    def unfollowed(self, candidates: Sequence[int], blocks: set[int]) -> list[int]:
        """Those candidates that lead to none of the other `blocks`."""
        level = self._level
        highest = max([level[b] for b in blocks])
        return [b for b in candidates if level[b] == highest or not self._reaches(b, blocks)]

    def _reaches(self, start: int, blocks: set[int]) -> bool:
        """Whether a path leads from block `start` to a higher one of `blocks`.

        Searched from both ends, each step at the one that has fewer edges to follow.
        """
        level = self._level
        goals = frozenset([b for b in blocks if level[b] > level[start]])
        if (start, goals) in self._leads:
            return True
        low, high = level[start], max([level[b] for b in goals])
        edges = (self._following, self._preceding)
        seen = [{start}, set(goals)]  # from either end; those met last are the rims
        rims = [{start}, set(goals)]
        while True:
            here = min((0, 1), key=lambda k: sum([len(edges[k].get(b, ())) for b in rims[k]]))
            found = {self.block[v] for b in rims[here] for v in edges[here].get(b, ())}
            if not found.isdisjoint(seen[1 - here]):
                self._leads.add((start, goals))
                return True
            rims[here] = {b for b in found - seen[here] if low < level[b] < high}
            if not rims[here]:
                return False
            seen[here] |= rims[here]

    def add(self, v: int, read: set[int], joined: Sequence[int]) -> None:
        """Add node `v`, which reads from blocks `read`, to those in `joined`, which become one."""
        level = self._level
        block, height = v, 0
        if joined:
            block = max(joined, key=lambda b: len(self._members.get(b, ())))
            height = max([level[b] for b in joined])
            level[v] = height
            for b in (v, *joined):
                if b != block:
                    self._absorb(block, b)
        uneven = len(joined) > 1
        for b in read:
            if b not in joined:
                self._following.setdefault(b, set()).add(block)
                self._preceding.setdefault(block, set()).add(b)
                height = max(height, level[b] + 1)
        if uneven or height > level[block]:
            level[block] = height
            self._lift(block)

    def _absorb(self, block: int, other: int) -> None:
        """Make the members of `other` members of `block`."""
        moved = self._members.pop(other, [other])
        for v in moved:
            self.block[v] = block
        self._members.setdefault(block, [block]).extend(moved)
        for edges in (self._following, self._preceding):
            if other in edges:
                edges.setdefault(block, set()).update(edges.pop(other))

    def _lift(self, block: int) -> None:
        """Raise the levels of blocks that follow a raised one."""
        level = self._level
        stack = [block]
        while stack:
            b = stack.pop()
            least = level[b] + 1
            for other in {self.block[v] for v in self._following.get(b, ())}:
                if level[other] < least:
                    level[other] = least
                    stack.append(other)
