"""The graph by number: canonical order, regions of it, contraction, disjoint sets.

Definition: nodes are numbered in a topological order that depends on names and edges alone.
Cost: O(n log n + m) for the numbers, O(n + m) for all else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a graph by itself, its nodes renumbered from 0 in topological order.

    names    its nodes' numbers in what it is a part of
    preds    what each node reads from inside the region, all smaller numbers, ascending
    capable  1 where a node may be taken
    """

    names: Sequence[int]
    preds: Sequence[Sequence[int]]
    capable: bytearray

    def succs(self) -> list[list[int]]:
        """The nodes that read from each node, ascending."""
        succs: list[list[int]] = [[] for _ in self.preds]
        for v, row in enumerate(self.preds):
            for u in row:
                succs[u].append(v)
        return succs

    def part(self, members: Sequence[int]) -> Region:
        """The sub-graph of some of its nodes, given in a topological order."""
        if len(members) == len(self.names):
            return self
        place = {v: i for i, v in enumerate(members)}
        preds = [[place[u] for u in self.preds[v] if u in place] for v in members]
        flags = bytearray([self.capable[v] for v in members])
        return Region([self.names[v] for v in members], preds, flags)

    def contracted(self, label: Sequence[int]) -> tuple[Region, list[int]]:
        """Nodes of one label made one, and the number of each node in that; acyclic by contract.

        label  of each node, the same for capable nodes only; the names are nodes of this region
        """
        after: dict[int, set[int]] = {name: set() for name in label}
        for v, row in enumerate(self.preds):
            for u in row:
                if label[u] != label[v]:
                    after[label[u]].add(label[v])
        order = _as_ready(after)
        number = {name: i for i, name in enumerate(order)}
        preds: list[list[int]] = [[] for _ in order]
        for i, name in enumerate(order):
            for other in after[name]:
                preds[number[other]].append(i)
        where = [number[name] for name in label]
        member = dict(zip(where, range(len(where)), strict=True))
        names = [member[i] for i in range(len(order))]
        return Region(names, preds, bytearray([self.capable[v] for v in names])), where


def _as_ready(after: dict[int, set[int]]) -> list[int]:
    """A topological order: names as they become ready, those that do at once ascending."""
    missing = dict.fromkeys(after, 0)
    for others in after.values():
        for name in others:
            missing[name] += 1
    order = [name for name, count in missing.items() if not count]
    for name in order:  # grows
        for other in sorted(after[name]):
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


@dataclass(frozen=True, slots=True)
class Indexed:
    """A DAG whose nodes are numbered in canonical topological order.

    nodes    number to node; every edge goes from a smaller number to a larger one
    number   node to number
    region   all of it; names are numbers
    outside  the numbers of the nodes that read each tensor from outside the graph, ascending
    """

    nodes: list[Hashable]
    number: dict[Hashable, int]
    region: Region
    outside: dict[Hashable, list[int]]

    def taking(self, flags: bytearray) -> Indexed:
        """The same with other capable nodes."""
        region = Region(self.region.names, self.region.preds, flags)
        return Indexed(self.nodes, self.number, region, self.outside)


def indexed(dag: nx.DiGraph, capable: Iterable[Hashable]) -> Indexed:
    """Number `dag` by depth (edges on the longest path from a source) and within a depth in turn.

    That is, sources by `sorted_nodes`, then what becomes ready with the first of them, again by
    `sorted_nodes`, and so on. The numbers depend on names and edges, never on the order in which
    they were inserted.

    Raises: ValueError if `dag` is undirected, has parallel edges or a cycle, or if a capable node
    is not in it.
    """
    if not dag.is_directed() or dag.is_multigraph():
        raise ValueError(f"the graph must be a DiGraph, not a {type(dag).__name__}")
    nodes = _topological(dag, {node: i for i, node in enumerate(sorted_nodes(dag))})
    number = {node: i for i, node in enumerate(nodes)}
    flags = bytearray(len(nodes))
    for node in capable:
        if node not in number:
            raise ValueError(f"capable node {node!r} is not in the graph")
        flags[number[node]] = 1
    preds = [sorted([number[u] for u in row]) for row in map(dict(dag.pred).__getitem__, nodes)]
    outside: dict[Hashable, list[int]] = {}
    for v, node in enumerate(nodes):
        for tid in dag.nodes[node].get("inputs", ()):
            outside.setdefault(tid, []).append(v)
    return Indexed(nodes, number, Region(range(len(nodes)), preds, flags), outside)


def _topological(dag: nx.DiGraph, rank: dict[Hashable, int]) -> list[Hashable]:
    """Nodes as they become ready, those that do at once by `rank`.

    Raises: ValueError if `dag` has a cycle.
    """
    following = dict(dag.adjacency())
    missing = dict.fromkeys(rank, 0)
    for row in following.values():
        for node in row:
            missing[node] += 1
    order = [node for node, count in missing.items() if not count]
    for node in order:  # grows
        ready = []
        for follower in following[node]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
        if len(ready) > 1:
            ready.sort(key=rank.__getitem__)
        order += ready
    if len(order) < len(rank):
        raise ValueError("the graph has a cycle")
    return order


def sorted_nodes(nodes: Iterable[Hashable]) -> list[Hashable]:
    """Nodes in an order that does not depend on the order given.

    Strings and integers sort by themselves, anything else by type name and `repr`, so nodes of
    other types are told apart by their `repr`.

    >>> sorted_nodes([10, 9, 11]), sorted_nodes(["b", 1, "a"])
    ([9, 10, 11], [1, 'a', 'b'])
    """
    members = list(nodes)
    if {type(node) for node in members} in ({int}, {str}):
        return sorted(members)  # type: ignore[type-var]
    return sorted(members, key=lambda node: (type(node).__name__, repr(node)))


class Union:
    """Numbers in disjoint sets, each named by its smallest member."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, v: int) -> int:
        """The name of the set that holds `v`."""
        parent = self._parent
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        return v

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Make one set of those that hold either of a pair, for each pair."""
        parent = self._parent
        for a, b in pairs:
            while parent[a] != a:
                parent[a] = a = parent[parent[a]]  # noqa: PLW2901
            while parent[b] != b:
                parent[b] = b = parent[parent[b]]  # noqa: PLW2901
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b

    def names(self) -> list[int]:
        """The name of the set of every number."""
        names: list[int] = []
        for v, parent in enumerate(self._parent):
            names.append(v if parent == v else names[parent])
        return names
