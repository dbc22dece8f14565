"""Exact reduction: what is decided without a search, and the regions that are left.

Definition: two capable nodes are strictly ordered if a path from one to the other passes an
incapable node; no cluster holds both. A *joint* is an edge between capable nodes that are not.
Clusters are connected by joints, so each lies within one component of them.
Guarantee: some best partition of the graph consists of what is decided here and of any best
partitions of the regions. A cycle of clusters, contracted, is a cycle of components, so it lies in
one strongly connected part of their graph. A component that is such a part by itself is one
cluster: no path leaves it and comes back, and that is best for the number of clusters and for
bytes, whatever becomes of the rest. The other parts are the regions; they share no cluster.
Cost: O(n + m).
Source: strongly connected components by networkx (after Nuutila and Soisalon-Soininen, 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import networkx as nx

from partitioner.graph import Region, Union

LANDMARKS = 4096  # incapable nodes that are looked at, at most,
BITS = 1 << 28  # and so many bits for all nodes together


def reduced(region: Region) -> tuple[list[int], list[list[int]]]:
    """The component of each node, and the nodes of every part that needs a search, ascending.

    Components outside those parts are clusters.
    """
    union = Union(len(region.preds))
    union.join(joints(region))
    component = union.names()
    quotient = nx.DiGraph(
        (component[u], component[v])
        for v, row in enumerate(region.preds)
        for u in row
        if component[u] != component[v]
    )
    parts = [part for part in nx.strongly_connected_components(quotient) if len(part) > 1]
    home = {c: i for i, part in enumerate(parts) for c in part}
    members: list[list[int]] = [[] for _ in parts]
    for v, c in enumerate(component) if parts else ():
        if c in home:
            members[home[c]].append(v)
    return component, sorted(members, key=lambda part: (len(part), part[0]))


def joints(region: Region) -> Iterator[tuple[int, int]]:
    """Edges between capable nodes that are not strictly ordered.

    Guarantee: exact for up to `LANDMARKS` incapable nodes; of more, so many are looked at, evenly
    spread, and an edge around others only counts as a joint.
    Cost: O(n + m) operations on integers with a bit for each of those.
    """
    capable, preds = region.capable, region.preds
    marks = _landmarks(region)
    above = _spread(preds, range(len(preds)), marks)
    below = _spread(region.succs(), range(len(preds) - 1, -1, -1), marks)
    for v, row in enumerate(preds):
        if capable[v]:
            marked = above[v]
            for u in row:
                if capable[u] and not (marked and below[u] & marked):
                    yield u, v


def _spread(
    reads: Sequence[Sequence[int]], order: Iterable[int], marks: Mapping[int, int]
) -> list[int]:
    """The marks of each node and of all that it reads, and of what those read in turn."""
    spread = [0] * len(reads)
    for v in order:
        bits = marks.get(v, 0)
        for u in reads[v]:
            other = spread[u]
            if other is not bits:  # equal sets along a chain are one object
                both = other | bits
                bits = other if both == other else bits if both == bits else both
        spread[v] = bits
    return spread


def _landmarks(region: Region) -> dict[int, int]:
    """A bit for each incapable node that is looked at."""
    size = len(region.capable)
    incapable = [v for v in range(size) if not region.capable[v]]
    step = max(1, -(-len(incapable) // min(LANDMARKS, 1 + BITS // max(1, size))))
    return {v: 1 << i for i, v in enumerate(incapable[::step])}
