"""The graph by number: canonical order, edges and capable flags as flat sequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Indexed:
    """A DAG whose nodes are numbered in canonical topological order.

    nodes    number to node; every edge goes from a smaller number to a larger one
    number   node to number
    preds    numbers of the nodes that each node reads from, ascending
    capable  1 where a node may be taken
    """

    nodes: list[Hashable]
    number: dict[Hashable, int]
    preds: list[tuple[int, ...]]
    capable: bytearray


def indexed(dag: nx.DiGraph, capable: Iterable[Hashable]) -> Indexed:
    """Number `dag` by depth (edges on the longest path from a source), then by `sorted_nodes`.

    The numbers depend on names and edges, never on the order in which they were inserted.

    Raises: ValueError if `dag` has a cycle or a capable node is not in it.
    Cost: O(n log n + m).
    """
    nodes = [node for generation in _generations(dag) for node in sorted_nodes(generation)]
    number = {node: i for i, node in enumerate(nodes)}
    flags = bytearray(len(nodes))
    for node in capable:
        if node not in number:
            raise ValueError(f"capable node {node!r} is not in the graph")
        flags[number[node]] = 1
    preds = [tuple(sorted([number[u] for u in dag.predecessors(node)])) for node in nodes]
    return Indexed(nodes, number, preds, flags)


def _generations(dag: nx.DiGraph) -> Iterator[list[Hashable]]:
    """Nodes by depth, from the sources on.

    Raises: ValueError if `dag` has a cycle.
    """
    following = dict(dag.adjacency())
    missing = dict.fromkeys(following, 0)
    for row in following.values():
        for node in row:
            missing[node] += 1
    ready = [node for node, count in missing.items() if not count]
    while ready:
        yield ready
        generation, ready = ready, []
        for node in generation:
            for follower in following[node]:
                missing[follower] -= 1
                if not missing[follower]:
                    ready.append(follower)
    if any(missing.values()):
        raise ValueError("the graph has a cycle")


def sorted_nodes(nodes: Iterable[Hashable]) -> list[Hashable]:
    """Nodes in an order that does not depend on the order given.

    Strings and integers sort by themselves, anything else by type name and `repr`, so nodes of
    other types are told apart by their `repr`.

    >>> sorted_nodes([10, 9, 11]), sorted_nodes(["b", 1, "a"])
    ([9, 10, 11], [1, 'a', 'b'])
    """
    members = list(nodes)
    if len(members) < 2:
        return members
    if {type(node) for node in members} in ({int}, {str}):
        return sorted(members)  # type: ignore[type-var]
    return sorted(members, key=lambda node: (type(node).__name__, repr(node)))
