"""The best partition by exhaustion. Shares no code with the product.

Clusters and bytes are counted from the definition in `docs`' words: a cluster pays for each tensor
that it reads from elsewhere or that leaves it, once; a partition pays what its clusters pay.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import networkx as nx

Cost = tuple[int, int]  # clusters, bytes


def exhaustive(dag: nx.DiGraph, capable: set[Hashable], *, connected: bool = True) -> Cost:
    """The fewest clusters, and the fewest bytes over the border with that many.

    A partition is a sequence of clusters, each of which finds done what its members wait for. So
    the cheapest way to any set of nodes that are done follows from smaller such sets. Sets are
    the bits of an integer; feasible for about ten capable nodes.
    """
    nodes = [v for v in nx.topological_sort(dag) if v in capable]
    clusters = list(_clusters(dag, nodes, connected))
    best: dict[int, Cost] = {0: (0, 0)}
    for done in range(1 << len(nodes)):
        if done not in best:
            continue
        count, paid = best[done]
        for cluster, awaits, price in clusters:
            if not cluster & done and not awaits & ~done:
                reached = (count + 1, paid + price)
                if reached < best.get(done | cluster, (len(nodes) + 1, 0)):
                    best[done | cluster] = reached
    return best[(1 << len(nodes)) - 1]


def cost_of(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]]) -> Cost:
    """Clusters, and bytes over their borders."""
    bit = {v: 1 << i for i, v in enumerate(v for members in clusters for v in members)}
    tensors = touching(dag, bit)
    sets = [sum(bit[v] for v in members) for members in clusters]
    return len(sets), sum(_price(members, tensors) for members in sets)


def _clusters(
    dag: nx.DiGraph, nodes: Sequence[Hashable], connected: bool
) -> Iterator[tuple[int, int, int]]:
    """Every set that can be a cluster: its bits, those it waits for, and what it pays."""
    bit = {v: 1 << i for i, v in enumerate(nodes)}
    awaits, strictly = ancestors(dag, bit)
    near = [sum(bit.get(w, 0) for w in (*dag.pred[v], *dag.succ[v])) for v in nodes]
    tensors = touching(dag, bit)
    for cluster in range(1, 1 << len(nodes)):
        members = [i for i in range(len(nodes)) if cluster >> i & 1]
        if any(strictly[nodes[i]] & cluster for i in members):
            continue  # a path through an incapable node joins two of them
        if connected and _piece(cluster, near) != cluster:
            continue
        before = 0
        for i in members:
            before |= awaits[nodes[i]]
        yield cluster, before & ~cluster, _price(cluster, tensors)


def _piece(cluster: int, near: Sequence[int]) -> int:
    """The part of a set that is connected with its lowest bit."""
    piece, rim = 0, cluster & -cluster
    while rim:
        piece |= rim
        i = (rim & -rim).bit_length() - 1
        rim = (rim & ~(1 << i)) | (near[i] & cluster & ~piece)
    return piece


def ancestors(
    dag: nx.DiGraph, bit: dict[Hashable, int]
) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The nodes with a bit that lead to each node; and those that do through one without."""
    awaits: dict[Hashable, int] = {}
    strictly: dict[Hashable, int] = {}
    for v in nx.topological_sort(dag):
        awaits[v] = strictly[v] = 0
        for u in dag.pred[v]:
            awaits[v] |= awaits[u] | bit.get(u, 0)
            strictly[v] |= strictly[u] if u in bit else awaits[u]
    return awaits, strictly


def touching(dag: nx.DiGraph, bit: dict[Hashable, int]) -> list[tuple[int, int, int, bool]]:
    """Every tensor: bytes, its maker and its readers as bits, and whether others read it."""
    read: dict[tuple[bool, Hashable, Hashable], dict[Hashable, int]] = {}
    for u, v, data in dag.edges(data=True):
        for tid, size in data.get("tensors", {"the only one": 1}).items():
            read.setdefault((True, u, tid), {})[v] = size
    for v, data in dag.nodes(data=True):
        for tid, size in data.get("outputs", {}).items():
            read.setdefault((True, v, tid), {})["outside the graph"] = size
        for tid, size in data.get("inputs", {}).items():
            read.setdefault((False, "outside the graph", tid), {})[v] = size
    return [
        (
            max(readers.values()),
            bit.get(maker, 0),
            sum(bit.get(v, 0) for v in readers),
            any(v not in bit for v in readers),
        )
        for (_, maker, _), readers in read.items()
    ]


def _price(cluster: int, tensors: Sequence[tuple[int, int, int, bool]]) -> int:
    """The bytes of the tensors that leave a set, or that it reads and does not make."""
    paid = 0
    for size, maker, readers, others in tensors:
        if (others or readers & ~cluster) if maker & cluster else readers & cluster:
            paid += size
    return paid
