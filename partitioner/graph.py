"""A DAG by number: canonical order, parts of it, contraction, disjoint sets.

Definition: nodes are numbered as they become ready, by what they read; those that do at once, in
the order of `sorted_nodes`.
Guarantee: the numbers depend on names and edges, not on the order in which they were inserted.
Cost: O(n log n + m) for the numbers, O(n + m) for all else.
Source: Kahn, "Topological sorting of large networks" (1962).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from numbers import Real

import networkx as nx

Rows = Sequence[Sequence[int]]  # numbers for each number


@dataclass(frozen=True)
class Region:
    """A DAG whose nodes are numbers from 0, in a topological order."""

    preds: Rows  # what each node reads, all smaller numbers, ascending
    capable: bytearray  # 1 where a node may be taken

    @cached_property
    def succs(self) -> list[tuple[int, ...]]:
        """The nodes that read from each node, ascending."""
        return _reversed(self.preds, len(self.preds))

    def part(self, members: Sequence[int]) -> Region:
        """The sub-graph of some nodes, given in ascending order."""
        place = {v: i for i, v in enumerate(members)}
        preds = [[place[u] for u in self.preds[v] if u in place] for v in members]
        return Region(preds, bytearray([self.capable[v] for v in members]))

    def contracted(self, label: Sequence[int]) -> tuple[Region, list[int]]:
        """Nodes of one label, alike capable, made one, and each node's number; must be acyclic."""
        first: dict[int, int] = {}
        block = [first.setdefault(name, len(first)) for name in label]
        preds: list[set[int]] = [set() for _ in first]
        for b, row in zip(block, self.preds, strict=True):
            for u in row:
                if block[u] != b:
                    preds[b].add(block[u])
        rows, order = _as_ready(_reversed(preds, len(preds)))
        number = {b: i for i, b in enumerate(order)}
        able = dict(zip(block, self.capable, strict=True))
        return Region(rows, bytearray([able[b] for b in order])), [number[b] for b in block]


def _reversed(rows: Iterable[Iterable[int]], size: int) -> list[tuple[int, ...]]:
    """The rows in which each number below `size` stands, ascending."""
    found: list[list[int]] = [[] for _ in range(size)]
    for v, row in enumerate(rows):
        for u in row:
            found[u].append(v)
    return list(map(tuple, found))


def inverse(where: Sequence[int]) -> list[tuple[int, ...]]:
    """The places at which each number stands, ascending."""
    return _reversed(zip(where, strict=True), max(where, default=-1) + 1)


def by_first(labels: Iterable[Hashable]) -> list[int]:
    """The first place that has the same label as each place."""
    first: dict[Hashable, int] = {}
    return [first.setdefault(label, place) for place, label in enumerate(labels)]


def _as_ready(succs: Rows) -> tuple[list[tuple[int, ...]], list[int]]:
    """What each reads, by new numbers: as they become ready, by rows; and the order of all.

    networkx's lexicographical sort takes 4 times as long.
    """
    missing = [0] * len(succs)
    for row in succs:
        for v in row:
            missing[v] += 1
    order = [v for v, count in enumerate(missing) if not count]
    preds: list[tuple[int, ...]] = [()] * len(order)
    begun: dict[int, list[int]] = {}  # of those that wait for more
    for i, v in enumerate(order):  # grows
        for w in succs[v]:
            missing[w] -= 1
            if not missing[w]:
                order.append(w)
                preds.append((*begun.pop(w, ()), i))
            else:
                begun.setdefault(w, []).append(i)
    return preds, order


@dataclass(frozen=True)
class Indexed:
    """A DAG by number."""

    inside: Sequence[Sequence[Hashable]]  # the nodes of each number: one, until contracted
    region: Region  # the same graph

    @cached_property
    def number(self) -> dict[Hashable, int]:
        """The number of each node, in canonical order."""
        return {node: i for i, nodes in enumerate(self.inside) for node in nodes}

    def contracted(self, label: Sequence[int]) -> Indexed:
        """The graph in which all nodes with the same label are one node."""
        region, where = self.region.contracted(label)
        return Indexed([self.members(places) for places in inverse(where)], region)

    def members(self, numbers: Iterable[int]) -> tuple[Hashable, ...]:
        """The nodes with these numbers, in the order of the numbers."""
        return tuple([node for i in numbers for node in self.inside[i]])


def indexed(dag: nx.DiGraph, capable: Iterable[Hashable]) -> Indexed:
    """The nodes of `dag` in canonical order. Raises: ValueError for what `partition` refuses."""
    if not isinstance(dag, nx.DiGraph) or dag.is_multigraph():
        raise ValueError(f"the graph must be a DiGraph, not a {type(dag).__name__}")
    _require_sizes(dag)
    ranked = sorted_nodes(dag)
    rank = {node: i for i, node in enumerate(ranked)}
    succs = {node: sorted(map(rank.__getitem__, row)) for node, row in dag.adjacency()}
    preds, order = _as_ready([succs[node] for node in ranked])
    if len(preds) < len(ranked):
        raise ValueError("the graph has a cycle")
    able = set(capable)
    for node in able - rank.keys():
        raise ValueError(f"capable node {node!r} is not in the graph")
    inside = [(ranked[r],) for r in order]
    return Indexed(inside, Region(preds, bytearray([node in able for (node,) in inside])))


def _require_sizes(dag: nx.DiGraph) -> None:
    """Raises ValueError for a tensor whose bytes are no number."""
    for u, v, sizes in dag.edges(data="tensors"):
        if sizes is not None:
            require_numbers(sizes, f"the tensors of the edge from {u!r} to {v!r}")
    for node, own in dag.nodes(data=True):
        for side in own.keys() & {"inputs", "outputs"} if own else ():
            require_numbers(own[side], f"the {side} of node {node!r}")


def require_numbers(found: object, what: str) -> None:
    """Raises ValueError unless `found` maps to finite numbers of at least 0."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} are {found!r}; give a dictionary from names to numbers")
    for name, number in found.items():
        if not (isinstance(number, Real) and 0 <= float(number) < inf):
            raise ValueError(f"{what}: {name!r} has {number!r}; give a number of at least 0")


def sorted_nodes(nodes: Collection[Hashable]) -> list[Hashable]:
    """Strings or integers in their own order, anything else by type name and `repr`.

    >>> sorted_nodes([10, 9, 11]), sorted_nodes(["b", 1, "a"])
    ([9, 10, 11], [1, 'a', 'b'])
    """
    if {type(node) for node in nodes} in ({int}, {str}):
        return sorted(nodes)  # type: ignore[type-var]
    return sorted(nodes, key=lambda node: (type(node).__name__, repr(node)))


def components(size: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For each node, the smallest node of its connected component; `pairs` are the edges.

    Source: Rem's algorithm (1976); `networkx.utils.UnionFind` takes 6 times as long.
    """
    parent = list(range(size))  # none is larger than its child
    for u, v in pairs:
        a, b = u, v
        while (above := parent[a]) != parent[b]:
            if above < parent[b]:
                a, b = b, a
            else:
                parent[a] = parent[b]
                if a == above:
                    break
                a = above
    for v, u in enumerate(parent):
        parent[v] = parent[u]  # the parent is smaller, so its own is final
    return parent
