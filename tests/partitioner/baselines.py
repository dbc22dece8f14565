"""Other ways to partition, which `partition` is compared with."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

import networkx as nx


def by_waves(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """As ONNX Runtime's own providers group nodes: one group a wave, whether connected or not.

    A wave takes nodes as they become ready. A node that is not capable and reads from the wave's
    group waits for the next wave, and so does all that comes after it; any other that is not
    capable just goes by. When nothing is ready, the group is closed.
    """
    missing = dict(dag.in_degree())
    ready = deque(node for node, count in missing.items() if not count)
    groups = []
    while ready:
        group: set[Hashable] = set()
        postponed: deque[Hashable] = deque()
        while ready:
            node = ready.popleft()
            if node not in capable and not group.isdisjoint(dag.pred[node]):
                postponed.append(node)
                continue
            if node in capable:
                group.add(node)
            for reader in dag.succ[node]:
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
        groups.append([node for node in dag if node in group])
        ready = postponed
    return [group for group in groups if group]


def by_connected_waves(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """The weakly connected components of every group of `by_waves`."""
    pieces = [nx.weakly_connected_components(dag.subgraph(g)) for g in by_waves(dag, capable)]
    return [list(piece) for wave in pieces for piece in wave]


def by_single_nodes(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """Nodes in topological order; each joins every cluster it reads from that it can join.

    It cannot join one that leads to it by another way: through a node that is not capable or
    through another cluster.
    """
    home: dict[Hashable, tuple[int, Hashable]] = {}  # of a capable node (0, its cluster)
    quotient = nx.DiGraph()
    for node in nx.topological_sort(dag):
        own = (0, node) if node in capable else (1, node)
        home[node] = own
        quotient.add_node(own)
        quotient.add_edges_from((home[u], own) for u in dag.pred[node])
        joinable = {home[u] for u in dag.pred[node] if u in capable and node in capable}
        for cluster in sorted(joinable, key=str):
            if not _other_way(quotient, cluster, own):
                for member in [m for m, name in home.items() if name == cluster]:
                    home[member] = own
                nx.contracted_nodes(quotient, own, cluster, self_loops=False, copy=False)
    clusters: dict[tuple[int, Hashable], list[Hashable]] = {}
    for node, name in home.items():
        if node in capable:
            clusters.setdefault(name, []).append(node)
    return list(clusters.values())


def _other_way(quotient: nx.DiGraph, start: Hashable, end: Hashable) -> bool:
    """Whether a path of two or more edges leads from one block to another."""
    between = quotient.pred[end].keys() - {start}
    return not between.isdisjoint(nx.descendants(quotient, start))
