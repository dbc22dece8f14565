"""Regions: parts of a graph that are partitioned on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partitioner.graph import Indexed


@dataclass(frozen=True, slots=True)
class Region:
    """A sub-graph by itself, its nodes renumbered from 0 in topological order.

    names    its nodes' numbers in what it is a part of
    preds    what each node reads from inside the region, all smaller numbers
    rank     place of each node in the order by name
    capable  1 where a node may be taken
    """

    names: Sequence[int]
    preds: Sequence[Sequence[int]]
    rank: Sequence[int]
    capable: bytearray

    def succs(self) -> list[list[int]]:
        """The nodes that read from each node, ascending."""
        succs: list[list[int]] = [[] for _ in self.preds]
        for v, row in enumerate(self.preds):
            for u in row:
                succs[u].append(v)
        return succs

    def turned(self) -> Region:
        """The region with every edge turned round, its nodes numbered from the other end."""
        last = len(self.preds) - 1
        preds = [[last - w for w in reversed(row)] for row in reversed(self.succs())]
        return Region(self.names[::-1], preds, self.rank[::-1], self.capable[::-1])

    def part(self, members: Sequence[int]) -> Region:
        """The sub-graph of some of its nodes, given in a topological order."""
        if len(members) == len(self.names):
            return self
        place = {v: i for i, v in enumerate(members)}
        preds = [tuple([place[u] for u in self.preds[v] if u in place]) for v in members]
        names = [self.names[v] for v in members]
        rank = [self.rank[v] for v in members]
        return Region(names, preds, rank, bytearray([self.capable[v] for v in members]))


def whole(graph: Indexed) -> Region:
    """The region that is all of `graph`."""
    return Region(range(len(graph.nodes)), graph.preds, graph.rank, graph.capable)
