"""Other ways to partition, which `partition` is compared with."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping

import networkx as nx


def by_waves(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """As ONNX Runtime's own providers group nodes: one group a wave, whether connected or not.

    A wave takes nodes as they become ready. A node that is not capable and reads from the wave's
    group waits for the next wave, and so does all that comes after it; any other that is not
    capable just goes by. When nothing is ready, the group is closed.
    """
    missing = dict(dag.in_degree())
    ready = deque(node for node, count in missing.items() if not count)
    place = {node: i for i, node in enumerate(dag)}
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
        groups.append(sorted(group, key=place.__getitem__))
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
    return merged(dag.pred, nx.topological_sort(dag), capable)


def by_single_nodes_backwards(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """The same with every edge turned round."""
    return merged(dag.succ, reversed(list(nx.topological_sort(dag))), capable)


def merged(
    reads: Mapping[Hashable, Iterable[Hashable]], order: Iterable[Hashable], capable: set[Hashable]
) -> list[list[Hashable]]:
    home: dict[Hashable, int] = {}  # of each node so far, its block
    members: dict[int, list[Hashable]] = {}
    after: dict[int, set[Hashable]] = {}  # nodes that read from each block
    for k, node in enumerate(order):
        read = {home[u] for u in reads[node]}
        joined = []
        if node in capable:
            able = sorted(b for b in read if members[b][0] in capable)
            joined = [b for b in able if len(read) == 1 or not _leads(b, read, home, after)]
        home[node], members[k], after[k] = k, [node], set()
        for b in joined:
            large, small = sorted((b, home[node]), key=lambda b: len(members[b]), reverse=True)
            for member in members[small]:
                home[member] = large
            members[large] += members.pop(small)
            after[large] |= after.pop(small)
        for b in read.difference(joined):
            after[b].add(node)
    return [nodes for nodes in members.values() if nodes[0] in capable]


def _leads(
    start: int, goals: set[int], home: dict[Hashable, int], after: dict[int, set[Hashable]]
) -> bool:
    """True if a path leads from a block to another one of some."""
    met, stack = {start}, [start]
    while stack:
        for other in {home[node] for node in after[stack.pop()]} - met:
            if other in goals:
                return True
            met.add(other)
            stack.append(other)
    return False
