"""The graph by number: canonical order, edges and capable flags as flat lists."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Indexed:
    """A DAG whose nodes are numbered in canonical topological order.

    nodes    number to node; every edge goes from a smaller number to a larger one
    preds    numbers of the nodes that each node reads from, ascending
    succs    numbers of the nodes that read from each node, ascending
    capable  1 where a node may be taken
    """

    nodes: list[Hashable]
    preds: list[list[int]]
    succs: list[list[int]]
    capable: bytearray


def indexed(dag: nx.DiGraph, capable: Iterable[Hashable]) -> Indexed:
    """Number `dag` by depth (edges on the longest path from a source), then by `sorted_nodes`.

    The numbers depend on names and edges, never on the order in which they were inserted.

    Raises: ValueError if `dag` has a cycle or a capable node is not in it.
    Cost: O(n log n + m).
    """
    depth = depths(dag)
    nodes = sorted(sorted_nodes(dag), key=depth.__getitem__)
    number = {node: i for i, node in enumerate(nodes)}
    flags = bytearray(len(nodes))
    for node in capable:
        if node not in number:
            raise ValueError(f"capable node {node!r} is not in the graph")
        flags[number[node]] = 1
    preds = [sorted([number[u] for u in dag.pred[node]]) for node in nodes]
    succs: list[list[int]] = [[] for _ in nodes]
    for v, row in enumerate(preds):
        for u in row:
            succs[u].append(v)
    return Indexed(nodes, preds, succs, flags)


def depths(dag: nx.DiGraph) -> dict[Hashable, int]:
    """Number of edges on the longest path from a source to each node.

    Raises: ValueError if `dag` has a cycle.
    """
    depth: dict[Hashable, int] = {}
    missing = dict(dag.in_degree())
    ready = [node for node, degree in missing.items() if not degree]
    level = 0
    while ready:
        following = []
        for node in ready:
            depth[node] = level
            for successor in dag.succ[node]:
                missing[successor] -= 1
                if not missing[successor]:
                    following.append(successor)
        ready = following
        level += 1
    if len(depth) < len(dag):
        raise ValueError("the graph has a cycle")
    return depth


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
