"""Clusters within limits of their size and number.

Definition: clusters that are too small are given up, then those of least value beyond the number.
Guarantee: what is left has no `violations` with what it holds as `taken`.
Cost: a `partition` for each round in which clusters are given up, and one more.
Source: the smallest size is that of ONNX Runtime's partitioning_utils.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import networkx as nx

from partitioner.clusters import Partition, partition
from partitioner.constraints import Budget

Clusters = list[tuple[Hashable, ...]]


def limited(
    dag: nx.DiGraph,
    capable: Iterable[Hashable],
    *,
    connected: bool = True,
    min_cluster_nodes: int = 1,
    max_clusters: int | None = None,
    values: Callable[[Clusters], Sequence[float]] | None = None,
    budget: Budget | None = None,
) -> tuple[Partition, Clusters]:
    """Clusters within limits, and those that were given up for it.

    Clusters of fewer than `min_cluster_nodes` are given up, and of the others all but the
    `max_clusters` of highest value; then what is left is partitioned again, until nothing is
    given up. (A cluster that is gone may have kept two others apart.) Without `values`, which
    tells what each cluster is worth, one is worth its nodes; of equal ones, the earlier is kept.
    `budget` limits what one cluster holds, as in `partition`.

    >>> dag = nx.DiGraph([("a", "b"), ("b", "x"), ("x", "c")])
    >>> limited(dag, "abc", min_cluster_nodes=2)
    ([('a', 'b')], [('c',)])
    >>> limited(dag, "abc", max_clusters=1, values=lambda clusters: [-len(c) for c in clusters])
    ([('c',)], [('a', 'b')])

    Raises: ValueError if a limit is negative, and as `partition`.
    """
    if min_cluster_nodes < 0 or (max_clusters is not None and max_clusters < 0):
        raise ValueError("min_cluster_nodes and max_clusters cannot be negative")
    able = set(capable)
    given_up: Clusters = []
    while True:
        clusters = partition(dag, able, connected=connected, budget=budget)
        worth = values(clusters) if values else [len(members) for members in clusters]
        large = [i for i, members in enumerate(clusters) if len(members) >= min_cluster_nodes]
        kept = set(sorted(large, key=lambda i: (-worth[i], i))[:max_clusters])
        if len(kept) == len(clusters):
            return clusters, given_up
        lost = [members for i, members in enumerate(clusters) if i not in kept]
        given_up += lost
        able.difference_update(*lost)
