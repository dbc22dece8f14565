"""Bytes that cross the borders of clusters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import networkx as nx

from partitioner.tensors import carried


def border_bytes(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]]) -> int:
    """Bytes over the borders of `clusters`.

    Definition: a tensor counts once if it leaves the cluster that makes it, for another node or
    for outside the graph, and once for every other cluster that reads it, whether a cluster, a
    node outside clusters or the outside of the graph makes it.

    >>> dag = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])  # one tensor of one byte
    >>> border_bytes(dag, ["a", "bc", "d"]), border_bytes(dag, ["ab"]), border_bytes(dag, ["abcd"])
    (3, 1, 0)
    """
    home = {node: i for i, members in enumerate(clusters) for node in members}
    total = 0
    outside: dict[Hashable, dict[int | None, int]] = {}
    for node, attributes in dag.nodes(data=True):
        made: dict[Hashable, dict[int | None, int]] = {}  # by tensor: who reads it, and its bytes
        for reader in dag.successors(node):
            for tid, size in carried(dag, node, reader):
                made.setdefault(tid, {})[home.get(reader)] = size
        for tid, size in attributes.get("outputs", {}).items():
            made.setdefault(tid, {})[None] = size
        total += sum(_crossing(readers, home.get(node)) for readers in made.values())
        for tid, size in attributes.get("inputs", {}).items():
            outside.setdefault(tid, {})[home.get(node)] = size
    return total + sum(_crossing(readers, None) for readers in outside.values())


def _crossing(readers: dict[int | None, int], maker: int | None) -> int:
    """Bytes of a tensor, given the clusters that read it (None: no cluster) and the one's it is."""
    size = max(readers.values())
    others = readers.keys() - {maker}
    return size * (len(others - {None}) + bool(others and maker is not None))
