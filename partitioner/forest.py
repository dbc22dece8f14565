"""A forest of the capable nodes, along which clusters are counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from partitioner.graph import Indexed, Union


def forest(graph: Indexed, clusters: Sequence[Sequence[int]], connected: bool) -> list[int]:
    """The parent of each node; -1 at a root.

    Each cluster is in one tree and connected there, and no edge of a tree joins two clusters.
    So of the nodes of clusters, as many as there are clusters have no parent in a cluster. Other
    capable nodes are in the trees as far as edges of the graph reach.
    """
    cluster = [-1] * len(graph.nodes)
    for i, members in enumerate(clusters):
        for v in members:
            cluster[v] = i
    inside, outside = [], []
    for v, row in enumerate(graph.region.preds):
        for u in row:
            if graph.region.capable[u] and graph.region.capable[v]:
                if cluster[u] == cluster[v] >= 0:
                    inside.append((u, v))
                elif cluster[u] < 0 or cluster[v] < 0:
                    outside.append((u, v))
    if not connected:
        inside += [pair for members in clusters for pair in pairwise(members)]
    return _rooted(len(cluster), [*inside, *outside])


def _rooted(size: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The parents in a forest of those edges that close no circle with earlier ones."""
    union = Union(size)
    near: list[list[int]] = [[] for _ in range(size)]
    for u, v in edges:
        if union.find(u) != union.find(v):
            union.join([(u, v)])
            near[u].append(v)
            near[v].append(u)
    parent = [-1] * size
    met = bytearray(size)
    for root in range(size):
        if met[root]:
            continue
        met[root] = 1
        tree = [root]
        for v in tree:  # grows
            for w in near[v]:
                if not met[w]:
                    met[w] = 1
                    parent[w] = v
                    tree.append(w)
    return parent
