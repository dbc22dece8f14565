"""The graph by number: canonical order, edges and capable flags as flat sequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Indexed:
    """A DAG whose nodes are numbered in canonical topological order.

    nodes    number to node; every edge goes from a smaller number to a larger one
    number   node to number
    rank     place of each node among all by `sorted_nodes`
    preds    numbers of the nodes that each node reads from, ascending
    capable  1 where a node may be taken
    outside  the numbers of the nodes that read each tensor from outside the graph, ascending
    """

    nodes: list[Hashable]
    number: dict[Hashable, int]
    rank: list[int]
    preds: list[tuple[int, ...]]
    capable: bytearray
    outside: dict[Hashable, list[int]]


def indexed(dag: nx.DiGraph, capable: Iterable[Hashable]) -> Indexed:
    """Number `dag` by depth (edges on the longest path from a source) and within a depth in turn.

    That is, sources by `sorted_nodes`, then what becomes ready with the first of them, again by
    `sorted_nodes`, and so on. The numbers depend on names and edges, never on the order in which
    they were inserted.

    Raises: ValueError if `dag` is undirected, has parallel edges or a cycle, or if a capable node
    is not in it.
    Cost: O(n log n + m).
    """
    if not dag.is_directed() or dag.is_multigraph():
        raise ValueError(f"the graph must be a DiGraph, not a {type(dag).__name__}")
    rank = {node: i for i, node in enumerate(sorted_nodes(dag))}
    nodes = _topological(dag, rank)
    number = {node: i for i, node in enumerate(nodes)}
    flags = bytearray(len(nodes))
    for node in capable:
        if node not in number:
            raise ValueError(f"capable node {node!r} is not in the graph")
        flags[number[node]] = 1
    preds = [tuple(sorted([number[u] for u in dag.predecessors(node)])) for node in nodes]
    outside: dict[Hashable, list[int]] = {}
    for v, node in enumerate(nodes):
        for tid in dag.nodes[node].get("inputs", ()):
            outside.setdefault(tid, []).append(v)
    return Indexed(nodes, number, [rank[node] for node in nodes], preds, flags, outside)


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
