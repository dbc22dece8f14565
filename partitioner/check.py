"""Violations of the definition of a partition, each as a sentence.

Definition: see `partition`.
Guarantee: shares no code with it, so each checks the other, except for what a `Budget` counts.
Cost: O(n + m) for each block of the contracted graph.
Source: the definitions, by networkx's algorithms; two blocks can be merged if their edge is in the
transitive reduction (Aho, Garey and Ullman, 1972).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations

import networkx as nx

from partitioner.constraints import Budget

Members = Sequence[Hashable]


def violations(
    dag: nx.DiGraph,
    capable: Iterable[Hashable],
    clusters: Sequence[Members],
    *,
    connected: bool = True,
    taken: Iterable[Hashable] | None = None,
    groups: Iterable[Iterable[Hashable]] = (),
    budget: Budget | None = None,
) -> list[str]:
    """Every way in which `clusters` is not a partition as `partition` defines it; none is [].

    Clusters must not be empty, cover `taken` (default: all of `capable`) exactly and stand in an
    order in which they can run; and no two may form one cluster that keeps the definition. Each of
    `groups` must lie in one cluster, and one beyond `budget` hold a single node or a group.

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
    home = {node: (0, i) for i, members in enumerate(clusters) for node in members}
    block = {node: home.get(node, (1, node)) for node in dag}  # (1, node) outside of clusters
    quotient = nx.DiGraph()
    quotient.add_nodes_from(block.values())
    quotient.add_edges_from((block[u], block[v]) for u, v in dag.edges if block[u] != block[v])
    held: set[Hashable] = set()
    for group in map(set, groups):
        held |= group
        if len({block.get(node) for node in group}) > 1:
            found.append(f"group {sorted(group, key=repr)} is not in one cluster")
    for i, members in enumerate(clusters):
        single = len(members) == 1 or not held.isdisjoint(members)
        if budget is not None and not single and not budget.fits(dag, members):
            found.append(f"cluster {i} is beyond the budget")
    found += _inside(dag, clusters, connected)
    if not nx.is_directed_acyclic_graph(quotient):
        return [*found, *_cyclic(dag, clusters, quotient)]
    found += _running_order(quotient, len(clusters))
    return found + [
        f"clusters {i} and {j} can be merged"
        for i, j in sorted(_mergeable(quotient, len(clusters), connected))
        if budget is None or budget.fits(dag, [*clusters[i], *clusters[j]])
    ]


def _membership(
    dag: nx.DiGraph, able: set[Hashable], clusters: Sequence[Members], taken: set[Hashable]
) -> Iterator[str]:
    """Strangers, repeats, empty clusters and nodes left out."""
    owner: dict[Hashable, int] = {}
    for i, members in enumerate(clusters):
        if not members:
            yield f"cluster {i} is empty"
        for node in members:
            known = {
                "in the graph": node in dag,
                "capable": node in able,
                "to be taken": node in taken,
            }
            for what in [what for what, holds in known.items() if not holds][:1]:
                yield f"cluster {i} holds {node!r}, which is not {what}"
            if node in owner:
                yield f"{node!r} is in cluster {owner[node]} and again in cluster {i}"
            owner[node] = i
    yield from (f"{node!r} is in no cluster" for node in taken if node not in owner)


def _inside(dag: nx.DiGraph, clusters: Sequence[Members], connected: bool) -> Iterator[str]:
    """Clusters in more than one piece, and those that list a reader before what it reads."""
    for i, members in enumerate(clusters):
        inside, place = dag.subgraph(members), {node: k for k, node in enumerate(members)}
        pieces = list(nx.weakly_connected_components(inside))
        if connected and len(pieces) > 1:
            a, b = (next(node for node in members if node in piece) for piece in pieces[:2])
            yield f"cluster {i} is not connected: nothing in it joins {a!r} and {b!r}"
        for u, v in inside.edges:
            if place[u] > place[v]:
                yield f"cluster {i} lists {v!r} before {u!r}, which it reads"


def _cyclic(dag: nx.DiGraph, clusters: Sequence[Members], quotient: nx.DiGraph) -> Iterator[str]:
    """Clusters that are not convex, and otherwise those that wait for each other."""
    for component in nx.strongly_connected_components(quotient):
        waiting = sorted(i for kind, i in component if kind == 0) if len(component) > 1 else []
        ways = {i: way for i in waiting if (way := _ways_out(dag, clusters[i]))}
        for i, way in ways.items():
            yield f"cluster {i} is not convex: a path leaves it to {way[0]!r} and comes back"
        if waiting and not ways:
            yield f"clusters {waiting} wait for each other"


def _ways_out(dag: nx.DiGraph, members: Members) -> list[Hashable]:
    """Nodes outside `members` that are read from there and lead back."""
    inside = set(members)
    out = dict.fromkeys(w for v in members for w in dag.succ[v] if w not in inside)
    return [node for node in out if not inside.isdisjoint(nx.descendants(dag, node))]


def _running_order(quotient: nx.DiGraph, count: int) -> Iterator[str]:
    """Clusters that stand before one that they wait for."""
    for i in range(count):
        waits = max((j for kind, j in nx.ancestors(quotient, (0, i)) if kind == 0), default=-1)
        if waits > i:
            yield f"cluster {i} runs before cluster {waits}, which it waits for"


def _mergeable(quotient: nx.DiGraph, count: int, connected: bool) -> Iterator[tuple[int, int]]:
    """Pairs of clusters that could be one: no path between them passes another block."""
    for (a, i), (b, j) in nx.transitive_reduction(quotient).edges:
        if a == b == 0:
            yield min(i, j), max(i, j)
    after = [] if connected else [nx.descendants(quotient, (0, i)) for i in range(count)]
    for i, j in combinations(range(len(after)), 2):
        if (0, j) not in after[i] and (0, i) not in after[j]:
            yield i, j
