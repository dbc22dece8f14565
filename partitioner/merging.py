"""Merging: nodes join the clusters they read from, in topological order."""

from __future__ import annotations

from partitioner.indexed import Indexed


class Quotient:
    """A graph whose nodes are blocks: clusters of capable nodes, and single incapable nodes.

    Blocks go by the number of one of their nodes; `find` gives it. The quotient stays acyclic.
    """

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))
        self._after: list[set[int]] = [set() for _ in range(size)]

    def find(self, v: int) -> int:
        """The block of node `v`."""
        parent = self._parent
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        return v

    def link(self, a: int, b: int) -> None:
        """Record that block `b` reads from block `a`."""
        self._after[a].add(b)

    def union(self, a: int, b: int) -> int:
        """Make one block of blocks `a` and `b`; the smaller number names it."""
        a, b = min(a, b), max(a, b)
        self._parent[b] = a
        self._after[a] |= self._after[b]
        self._after[b] = set()
        return a

    def reaches(self, start: int, goals: set[int]) -> bool:
        """Whether a path leads from block `start` to one of the other blocks `goals`."""
        seen = {start}
        stack = [start]
        while stack:
            for v in self._after[stack.pop()]:
                block = self.find(v)
                if block in goals and block != start:
                    return True
                if block not in seen:
                    seen.add(block)
                    stack.append(block)
        return False


def merged(graph: Indexed) -> list[int]:
    """The block of every node after each capable node joined all the clusters that it can.

    A node can join a cluster that it reads from unless that cluster also leads to it through
    another block that it reads from. Clusters that it can join do not lead to each other, so
    it joins them all, and they become one.

    Guarantee: clusters are connected and convex, the quotient is acyclic, and no two clusters
    can be merged, because a path between two blocks never disappears.
    """
    quotient = Quotient(len(graph.nodes))
    for v, row in enumerate(graph.preds):
        blocks = {quotient.find(u) for u in row}
        joined = [
            b
            for b in sorted(blocks)
            if graph.capable[v]
            and graph.capable[b]
            and not (len(blocks) > 1 and quotient.reaches(b, blocks))
        ]
        for b in blocks.difference(joined):
            quotient.link(b, v)
        block = v
        for b in joined:
            block = quotient.union(block, b)
    return [quotient.find(v) for v in range(len(graph.nodes))]
