"""Clusters in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from partitioner.graph import Indexed


def sequence(graph: Indexed, block: Sequence[int]) -> list[list[int]]:
    """Members of every cluster, ascending, clusters in an order in which they can run.

    block  the smallest member of the cluster of every capable node, and every other node itself
    Tie rule: of the blocks that can run, the one with the smallest member is next.
    Cost: O((n + m) log n).
    """
    members: dict[int, list[int]] = {}
    following: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for v, row in enumerate(graph.preds):
        b = block[v]
        members.setdefault(b, []).append(v)
        for u in row:
            if block[u] != b:
                following.setdefault(block[u], []).append(b)
                missing[b] = missing.get(b, 0) + 1
    ready = [b for b in members if b not in missing]
    heapify(ready)
    clusters = []
    while ready:
        b = heappop(ready)
        if graph.capable[b]:
            clusters.append(members[b])
        for other in following.get(b, ()):
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, other)
    return clusters
