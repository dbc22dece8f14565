"""Clusters in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from partitioner.indexed import Indexed


def sequence(graph: Indexed, block: Sequence[int]) -> list[list[int]]:
    """Members of every cluster, ascending, clusters in an order in which they can run.

    block  a name for the cluster of every capable node; an incapable node is its own
    Tie rule: of the blocks that can run, the one with the smallest member is next.
    Cost: O((n + m) log n).
    """
    head: dict[int, int] = {}
    first = [v if not graph.capable[v] else head.setdefault(block[v], v) for v in range(len(block))]
    members: dict[int, list[int]] = {v: [] for v in sorted(set(first))}
    missing = dict.fromkeys(members, 0)
    for v, b in enumerate(first):
        members[b].append(v)
        missing[b] += sum(first[u] != b for u in graph.preds[v])
    ready = [b for b, count in missing.items() if not count]
    heapify(ready)
    clusters = []
    while ready:
        b = heappop(ready)
        if graph.capable[b]:
            clusters.append(members[b])
        for w in (w for v in members[b] for w in graph.succs[v] if first[w] != b):
            missing[first[w]] -= 1
            if not missing[first[w]]:
                heappush(ready, first[w])
    return clusters
