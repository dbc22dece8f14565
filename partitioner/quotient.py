"""A region with its blocks contracted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from partitioner.region import Region


@dataclass(frozen=True, slots=True)
class Quotient:
    """A region with its blocks contracted: clusters, and incapable nodes by themselves.

    Blocks are numbered in topological order.

    block      block of each node
    members    nodes of each block
    cluster    whether each block is a cluster
    following  blocks that read from each block, ascending
    after      blocks that each block leads to, as bits
    before     blocks that lead to each block, as bits
    near       clusters that share an edge with each cluster
    """

    block: list[int]
    members: list[list[int]]
    cluster: list[bool]
    following: list[list[int]]
    after: list[int]
    before: list[int]
    near: list[set[int]]

    def between(self, window: Iterable[int]) -> list[int]:
        """Blocks not in a window on paths from a block in it to another, ascending."""
        after = before = own = 0
        for b in window:
            after |= self.after[b]
            before |= self.before[b]
            own |= 1 << b
        return list(numbers(after & before & ~own))

    def mergeable(self) -> tuple[int, int] | None:
        """Two clusters that share an edge, and no other path leads from one to the other."""
        for a, row in enumerate(self.following):
            beyond = 0
            for b in row:
                beyond |= self.after[b]
            for b in row:
                if self.cluster[a] and self.cluster[b] and not beyond >> b & 1:
                    return a, b
        return None


def numbers(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while bits:
        low = bits & -bits
        bits ^= low
        yield low.bit_length() - 1


def quotient_of(region: Region, label: Sequence[int]) -> Quotient:
    """The quotient by a partition that gives each node the label of its block.

    Cost: O(n + m) operations on integers with a bit for each block.
    """
    edges: dict[int, set[int]] = {name: set() for name in label}
    for v, row in enumerate(region.preds):
        name = label[v]
        for u in row:
            if label[u] != name:
                edges[label[u]].add(name)
    order = _topological(edges)
    number = {name: i for i, name in enumerate(order)}
    block = [number[name] for name in label]
    members: list[list[int]] = [[] for _ in order]
    for v, b in enumerate(block):
        members[b].append(v)
    following = [sorted([number[other] for other in edges[name]]) for name in order]
    after, before = _reaching(following)
    cluster = [bool(region.capable[nodes[0]]) for nodes in members]
    near: list[set[int]] = [set() for _ in order]
    for a, row in enumerate(following):
        for b in row:
            if cluster[a] and cluster[b]:
                near[a].add(b)
                near[b].add(a)
    return Quotient(block, members, cluster, following, after, before, near)


def _reaching(following: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The blocks that each leads to, and those that lead to each, as bits."""
    after, before = [0] * len(following), [0] * len(following)
    for a in range(len(following) - 1, -1, -1):
        for b in following[a]:
            after[a] |= after[b] | 1 << b
    for a, row in enumerate(following):
        for b in row:
            before[b] |= before[a] | 1 << a
    return after, before


def _topological(edges: dict[int, set[int]]) -> list[int]:
    missing = dict.fromkeys(edges, 0)
    for row in edges.values():
        for other in row:
            missing[other] += 1
    order = [name for name, count in missing.items() if not count]
    for name in order:  # grows
        for other in sorted(edges[name]):
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


def maximal(region: Region, label: Sequence[int]) -> list[int]:
    """The partition after clusters that can be merged have been, one pair after the other."""
    merged = list(label)
    while True:
        quotient = quotient_of(region, merged)
        pair = quotient.mergeable()
        if pair is None:
            return merged
        name = merged[quotient.members[pair[0]][0]]
        for v in quotient.members[pair[1]]:
            merged[v] = name
