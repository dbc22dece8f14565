"""Violations of the definition of a partition, each as a sentence.

Definition: see `partition`. Guarantee: shares no code with it, so each checks the other, but for
what a `Budget` counts. Cost: O(n + m) for each cluster that another one reads; for every one
without `connected`. Source: the definitions, by networkx's algorithms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import networkx as nx

from partitioner.constraints import Budget

Cluster = Sequence[Hashable]


def violations(
    dag: nx.DiGraph,
    capable: Iterable[Hashable],
    clusters: Sequence[Cluster],
    *,
    connected: bool = True,
    taken: Iterable[Hashable] | None = None,
    groups: Iterable[Iterable[Hashable]] = (),
    budget: Budget | None = None,
) -> list[str]:
    """Every way in which `clusters` is not a partition as `partition` defines it; none is [].

    Clusters must be non-empty and disjoint, hold capable nodes only and cover `taken` (default:
    all of `capable`) exactly; be connected (if `connected`) and convex; contracted, leave the
    graph acyclic; stand in an order in which they can run, their members in topological order;
    and no two may be mergeable, that is, form one cluster that keeps all of this. Each of `groups`
    must lie in one cluster, and one beyond `budget` hold a single node, or a group and what is
    between.

    >>> dag = nx.DiGraph([("a", "x"), ("x", "b"), ("a", "b")])
    >>> violations(dag, {"a", "b"}, [("a",), ("b",)])
    []
    >>> violations(dag, {"a", "b"}, [("a", "b")])
    ["cluster 0 is not convex: a path leaves it to 'x' and comes back"]
    """
    able = set(capable)
    found = list(_membership(dag, able, clusters, able if taken is None else set(taken)))
    if found:  # the rest is about clusters that are at least disjoint sets of nodes
        return found
    block = {node: i for i, members in enumerate(clusters) for node in members}
    quotient = _quotient(dag, block)
    held: set[Hashable] = set()
    for group in map(set, groups):
        held |= group
        if len({block.get(node) for node in group}) > 1:
            found.append(f"group {sorted(group, key=repr)} is not in one cluster")
    found += [
        f"cluster {i} is beyond the budget"
        for i, members in enumerate(clusters)
        if budget is not None and held.isdisjoint(members) and len(members) > 1
        if not budget.fits(dag, members)
    ]
    if connected:
        found += _disconnected(dag, clusters)
    found += _member_order(dag, clusters)
    if not nx.is_directed_acyclic_graph(quotient):
        return found + _cyclic(dag, clusters, quotient)
    found += _running_order(quotient, len(clusters))
    pairs = _mergeable(dag, quotient, block, connected)
    return found + [
        f"clusters {min(i, j)} and {max(i, j)} can be merged"
        for i, j in pairs
        if budget is None or budget.fits(dag, [*clusters[i], *clusters[j]])
    ]


def _membership(
    dag: nx.DiGraph, able: set[Hashable], clusters: Sequence[Cluster], taken: set[Hashable]
) -> Iterator[str]:
    """Strangers, repeats, empty clusters and nodes left out."""
    owner: dict[Hashable, int] = {}
    for i, members in enumerate(clusters):
        if not members:
            yield f"cluster {i} is empty"
        for node in members:
            if node not in dag:
                yield f"cluster {i} holds {node!r}, which is not in the graph"
            elif node not in able:
                yield f"cluster {i} holds {node!r}, which is not capable"
            elif node not in taken:
                yield f"cluster {i} holds {node!r}, which is not to be taken"
            if node in owner:
                yield f"{node!r} is in cluster {owner[node]} and again in cluster {i}"
            owner[node] = i
    for node in taken:
        if node not in owner:
            yield f"{node!r} is in no cluster"


def _quotient(dag: nx.DiGraph, block: dict[Hashable, int]) -> nx.DiGraph:
    """The graph of clusters (0, i) and untaken nodes (1, node), without loops."""

    def name(node: Hashable) -> tuple[int, Hashable]:
        return (0, block[node]) if node in block else (1, node)

    quotient = nx.DiGraph()
    quotient.add_nodes_from(map(name, dag))
    quotient.add_edges_from((a, b) for u, v in dag.edges if (a := name(u)) != (b := name(v)))
    return quotient


def _disconnected(dag: nx.DiGraph, clusters: Sequence[Cluster]) -> list[str]:
    """Clusters in more than one piece."""
    found = []
    for i, members in enumerate(clusters):
        pieces = list(nx.weakly_connected_components(dag.subgraph(members)))
        if len(pieces) > 1:
            a, b = (next(node for node in members if node in piece) for piece in pieces[:2])
            found.append(f"cluster {i} is not connected: nothing in it joins {a!r} and {b!r}")
    return found


def _member_order(dag: nx.DiGraph, clusters: Sequence[Cluster]) -> list[str]:
    """Clusters that list a reader before what it reads."""
    found = []
    for i, members in enumerate(clusters):
        place = {node: k for k, node in enumerate(members)}
        for v, k in place.items():
            late = [u for u in dag.pred[v] if place.get(u, k) > k]
            found += [f"cluster {i} lists {v!r} before {u!r}, which it reads" for u in late]
    return found


def _cyclic(dag: nx.DiGraph, clusters: Sequence[Cluster], quotient: nx.DiGraph) -> list[str]:
    """Clusters that are not convex, and else the clusters that wait for each other."""
    found = []
    for component in nx.strongly_connected_components(quotient):
        if len(component) == 1:
            continue
        waiting = sorted(i for kind, i in component if kind == 0)
        returns = [(i, _way_out(dag, set(clusters[i]))) for i in waiting]
        convex = all(node is None for _, node in returns)
        if convex:
            found.append(f"clusters {waiting} wait for each other")
        found += [
            f"cluster {i} is not convex: a path leaves it to {node[0]!r} and comes back"
            for i, node in returns
            if node is not None
        ]
    return found


def _way_out(dag: nx.DiGraph, members: set[Hashable]) -> tuple[Hashable] | None:
    """A node outside `members` on a path from one of them to another, boxed; None if convex."""
    outside = nx.restricted_view(dag, members, [])
    entries = {u for v in members for u in dag.pred[v] if u not in members}
    for exit_ in (w for v in members for w in dag.succ[v] if w not in members):
        if exit_ in entries or not entries.isdisjoint(nx.descendants(outside, exit_)):
            return (exit_,)
    return None


def _running_order(quotient: nx.DiGraph, count: int) -> list[str]:
    """Clusters that stand before one that they wait for."""
    found = []
    latest: dict[tuple[int, Hashable], int] = {}  # the last cluster that each block waits for
    for name in nx.topological_sort(quotient):
        waits = max((latest[p] for p in quotient.pred[name]), default=-1)
        kind, i = name
        if kind == 0 and waits > i:
            found.append(f"cluster {i} runs before cluster {waits}, which it waits for")
        latest[name] = max(waits, i) if kind == 0 else waits
    return found


def _mergeable(
    dag: nx.DiGraph, quotient: nx.DiGraph, block: dict[Hashable, int], connected: bool
) -> Iterator[tuple[int, int]]:
    """Pairs of clusters that could be one."""
    every = set(block.values())
    near: dict[int, set[int]] = {i: set() for i in every}
    for u, v in dag.edges:
        if u in block and v in block and block[u] != block[v]:
            near[block[u]].add(block[v])
    for i in sorted(every):
        readers = set(quotient.succ[0, i])
        if connected and not near[i]:
            continue
        candidates = near[i]
        if not connected:
            before = {j for kind, j in nx.ancestors(quotient, (0, i)) if kind == 0}
            candidates = {j for j in every - before if j > i or (0, j) in readers} - {i}
        for j in sorted(candidates - _beyond(quotient, (0, i))):
            yield i, j


def _beyond(quotient: nx.DiGraph, name: tuple[int, Hashable]) -> set[Hashable]:
    """Clusters on a path of two or more steps from block `name`."""
    reached: set[tuple[int, Hashable]] = set()
    stack = list(quotient.succ[name])
    while stack:
        further = quotient.succ[stack.pop()].keys() - reached
        reached |= further
        stack += further
    return {i for kind, i in reached if kind == 0}
