"""Exact reductions: what is decided without a search, and the regions that are left.

A *joint* is an edge between capable nodes that one cluster may hold (see `joints`); clusters are
connected by joints, so a cluster lies within one component of them.

1. Contract every component of joints. A cycle of clusters, contracted, is a cycle of these
   components, so it lies in one strongly connected part. A component that is such a part by
   itself is one cluster: no path leaves it and comes back, and that is best for the number of
   clusters and for bytes, whatever becomes of the rest. Parts do not depend on each other.
2. A part falls apart at its articulation nodes (as an undirected graph in which capable readers
   of one capable node are neighbours). A cycle of clusters lies within one biconnected block, and
   a connected cluster meets a block in a connected set, so blocks do not depend on each other:
   solutions are united at the articulation node, and a tensor that a capable node makes is paid
   for in one block. (One from outside that several blocks read may be shared or not.)
3. A block without incapable nodes is one cluster. Any other that is smaller than its part by
   `SMALLER` is reduced again, with its own components of joints.

Cost: O(n + m), up to the factor 1 / `SMALLER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partitioner.components import blocks, strong_parts
from partitioner.joints import joints
from partitioner.region import Region
from partitioner.union import Union

SMALLER = 1 / 16


def reduced(region: Region, union: Union) -> Iterator[Region]:
    """The regions that need a search; what is decided is joined in `union`, by name."""
    for part in _parts(region, union):
        size = len(part.names)
        for members in blocks(_neighbours(part)):
            if all(part.capable[v] for v in members):
                _join(part, members, union)
            elif size - len(members) < size * SMALLER:
                yield part.part(sorted(members))
            elif len(members) > 2:
                yield from reduced(part.part(sorted(members)), union)


def _join(region: Region, members: Sequence[int], union: Union) -> None:
    first = region.names[members[0]]
    union.join([(first, region.names[v]) for v in members])


def _parts(region: Region, union: Union) -> Iterator[Region]:
    """The strongly connected parts that need a search; other components are joined."""
    local = Union(len(region.preds))
    local.join(joints(region))
    component = local.names()
    members: dict[int, list[int]] = {}
    for v, c in enumerate(component):
        members.setdefault(c, []).append(v)
    after: dict[int, set[int]] = {c: set() for c in members}
    for v, row in enumerate(region.preds):
        c = component[v]
        for u in row:
            if component[u] != c:
                after[component[u]].add(c)
    for part in strong_parts(after):
        if len(part) > 1:
            yield region.part(sorted([v for c in part for v in members[c]]))
        else:
            _join(region, members[part[0]], union)


def _neighbours(region: Region) -> list[list[int]]:
    """The undirected graph of a region; capable nodes that read from one are neighbours, too."""
    near: list[list[int]] = [[] for _ in region.preds]
    reader = [-1] * len(near)  # the capable node that read last from each capable node
    for v, row in enumerate(region.preds):
        for u in row:
            near[u].append(v)
            near[v].append(u)
            if region.capable[u] and region.capable[v]:
                if reader[u] >= 0:
                    near[reader[u]].append(v)
                    near[v].append(reader[u])
                reader[u] = v
    return near
