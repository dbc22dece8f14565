"""The partition of a DAG's capable nodes into clusters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import networkx as nx

from partitioner.graph import Indexed, indexed
from partitioner.region import whole
from partitioner.sequence import sequence
from partitioner.solve import solved
from partitioner.tensors import every_tensor
from partitioner.touching import Touching
from partitioner.waves import by_wave

WORK = 300_000  # blocks that a search may look at, and more for each node
WORK_PER_NODE = 4


def partition(
    dag: nx.DiGraph, capable: Iterable[Hashable], *, connected: bool = True
) -> list[tuple[Hashable, ...]]:
    """Clusters of the `capable` nodes, in an order in which they can run.

    Definition: clusters are disjoint and cover the capable nodes; contracting each to one node
    leaves the graph acyclic (so each is convex: no path leaves and enters it again); with
    `connected`, each is weakly connected by edges between its members. Members are in
    topological order.

    What is sought: the fewest clusters, and among those the fewest `border_bytes`.

    Guarantee with `connected`: always maximal, no two clusters can be merged. The graph falls
    apart into regions that have no say in each other's clusters (`reduction`); where the search
    of every region ends without dropping a state (`search`; how many states there are depends on
    how many nodes are live at once, not on their number), the clusters are as few as can be, and
    their bytes as well, but for tensors that several undecided regions read: each is decided by
    what was decided before it. A region that is too wide for its share of the work gets the
    best of mergings in many orders (`starts`), improved by exact searches of neighbouring
    clusters (`windows`) until the work is used up.
    Guarantee without `connected`: the clusters are as few as can be, as many as the most runs of
    capable nodes on one path (`waves`); of their bytes, none.
    Tie rule: everything is decided by structure, then by `sorted_nodes`; the order in which
    nodes and edges were inserted has no say.
    Cost: O(n log n + m), and for searches no more than `WORK` + `WORK_PER_NODE` · n blocks looked
    at. Merging is near-linear in practice and quadratic at worst.

    >>> dag = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "x"), ("x", "c"), ("c", "d")])
    >>> partition(dag, {"a", "b", "c", "d"})  # x is not capable and lies between a and c
    [('a',), ('b', 'c', 'd')]

    (Cut between b and c, the tensor of b would cross the border as well as those of a and x. The
    tensor of a does anyway, since x reads it.)

    Raises: ValueError if `dag` is undirected, has parallel edges or a cycle, or if a capable node
    is not in it.
    """
    graph = indexed(dag, capable)
    clusters = grouped(graph, dag, connected=connected)
    return [tuple([graph.nodes[v] for v in members]) for members in clusters]


def grouped(
    graph: Indexed, dag: nx.DiGraph, *, connected: bool, effort: float = 1.0
) -> list[list[int]]:
    """The clusters of the nodes that are flagged capable, by number.

    effort  what part of the usual work may go into searches
    """
    if not connected:
        region = whole(graph)
        stands = [v if flag else None for v, flag in enumerate(graph.capable)]
        return sequence(graph, by_wave(region, every_tensor(graph, dag, stands)))
    work = int(effort * (WORK + WORK_PER_NODE * len(graph.nodes)))
    union, _ = solved(whole(graph), Touching(graph, dag).of, work)
    return sequence(graph, union.names())
