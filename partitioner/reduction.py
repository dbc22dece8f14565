"""Exact reductions: what is decided without a search, and the regions that are left.

Definition: two capable nodes are strictly ordered if a path from one to the other passes an
incapable node; no cluster holds both. A *joint* is an edge between capable nodes that are not.
Clusters are connected by joints, so each lies within one component of them.
Guarantee: some best partition of the graph consists of what is joined here and of any best
partitions of the regions.

1. Contract every component of joints. A cycle of clusters, contracted, is a cycle of these
   components, so it lies in one strongly connected part. A component that is such a part by
   itself is one cluster: no path leaves it and comes back, and that is best for the number of
   clusters and for bytes, whatever becomes of the rest. Parts do not depend on each other.
2. A part falls apart at its articulation nodes (as an undirected graph in which capable readers
   of one capable node are neighbours). A cycle of clusters lies within one biconnected block, and
   a connected cluster meets a block in a connected set, so blocks do not depend on each other:
   solutions are united at the articulation node, and a tensor that a capable node makes is paid
   for in one block. (One that others make and several blocks read may be shared or not.)
3. A block without incapable nodes is one cluster. Any other that is smaller than its part by
   `SMALLER` is reduced again, with its own components of joints.

Cost: O(n + m), up to the factor 1 / `SMALLER`.
Source: biconnected components after Tarjan, "Depth-first search and linear graph algorithms".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import networkx as nx

from partitioner.graph import Region, Union

SMALLER = 1 / 16
LANDMARKS = 4096  # incapable nodes that are looked at, at most,
BITS = 1 << 28  # and so many bits for all nodes together


def reduced(region: Region, union: Union) -> Iterator[tuple[Region, int]]:
    """The regions that need a search, each with a number of clusters that it has at least.

    What is decided is joined in `union`, by name.
    """
    for part, component in _parts(region, union):
        size = len(part.names)
        for members in _blocks(_neighbours(part)):
            if all(part.capable[v] for v in members):
                _join(part, members, union)
            elif size - len(members) < size * SMALLER:
                least = len({component[part.names[v]] for v in members if part.capable[v]})
                yield part.part(sorted(members)), least
            elif len(members) > 2:
                inner = part.part(sorted(members))
                yield from reduced(inner, union)


def _join(region: Region, members: Sequence[int], union: Union) -> None:
    first = region.names[members[0]]
    union.join([(first, region.names[v]) for v in members])


def _parts(region: Region, union: Union) -> Iterator[tuple[Region, dict[int, int]]]:
    """The strongly connected parts that need a search; other components are joined.

    And the component of each node, by its name.
    """
    local = Union(len(region.preds))
    local.join(joints(region))
    component = local.names()
    members: dict[int, list[int]] = {}
    for v, c in enumerate(component):
        members.setdefault(c, []).append(v)
    after = nx.DiGraph()
    after.add_nodes_from(members)
    for v, row in enumerate(region.preds):
        c = component[v]
        after.add_edges_from([(component[u], c) for u in row if component[u] != c])
    for part in nx.strongly_connected_components(after):
        if len(part) > 1:
            inside = sorted([v for c in part for v in members[c]])
            yield region.part(inside), {region.names[v]: component[v] for v in inside}
        else:
            _join(region, members[part.pop()], union)


def joints(region: Region) -> Iterator[tuple[int, int]]:
    """Edges between capable nodes that are not strictly ordered.

    Guarantee: exact for up to `LANDMARKS` incapable nodes with capable nodes before and after
    them; of more, so many are looked at, evenly spread, and an edge around others only counts as
    a joint.
    Cost: O(n + m) operations on integers with a bit for each of those.
    """
    capable, preds = region.capable, region.preds
    marks = _landmarks(region)
    above: list[int] = []  # landmarks that lead to each node
    for v, row in enumerate(preds):
        bits = marks.get(v, 0)
        for u in row:
            if above[u] is not bits:  # equal sets along a chain are one object
                bits = _both(above[u], bits)
        above.append(bits)
    below = [marks.get(v, 0) for v in range(len(preds))]  # and those that each leads to
    for v in range(len(below) - 1, -1, -1):
        bits = below[v]
        for u in preds[v] if bits else ():
            if below[u] is not bits:
                below[u] = _both(bits, below[u])
    for v, row in enumerate(preds):
        marked = above[v]
        for u in row if capable[v] else ():
            if capable[u] and not (marked and below[u] & marked):
                yield u, v


def _both(a: int, b: int) -> int:
    """The union of two sets of bits; one of the two objects where that is enough."""
    both = a | b
    return a if both == a else b if both == b else both


def _landmarks(region: Region) -> dict[int, int]:
    """A bit for each incapable node that is looked at."""
    capable = region.capable
    size = len(capable)
    before, after = bytearray(size), bytearray(size)  # 1: a capable node is before it, after it
    for v, row in enumerate(region.preds):
        for u in row:
            if capable[u] or before[u]:
                before[v] = 1
                break
    for v in range(size - 1, -1, -1):
        if capable[v] or after[v]:
            for u in region.preds[v]:
                after[u] = 1
    relevant = [v for v in range(size) if before[v] and after[v] and not capable[v]]
    step = max(1, -(-len(relevant) // min(LANDMARKS, 1 + BITS // max(1, size))))
    return {v: 1 << i for i, v in enumerate(relevant[::step])}


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


def _blocks(near: Sequence[Sequence[int]]) -> list[list[int]]:
    """Biconnected components of more than one node.

    In the tree of a depth-first search, the subtree below a node that has no edge to above that
    node's parent forms a block with the parent, without the blocks that hang on it. It is written
    out because `networkx.biconnected_components`, with the graph it needs, takes 4 to 6 times as
    long.
    """
    order, parent = _depth_first(near)
    number = [0] * len(near)
    for i, v in enumerate(order):
        number[v] = i
    low = [0] * len(near)
    for v in order:
        low[v] = min([number[w] for w in near[v]], default=0)
    for v in reversed(order):
        above = parent[v]
        if above >= 0 and low[v] < low[above]:
            low[above] = low[v]
    found: list[list[int]] = []
    block = [0] * len(near)
    for v in order:
        above = parent[v]
        if above >= 0 and low[v] < number[above]:
            block[v] = block[above]
            found[block[v]].append(v)
        elif above >= 0:
            block[v] = len(found)
            found.append([above, v])
    return found


def _depth_first(near: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Nodes in the order in which a depth-first search meets them, and from where; -1 at a root."""
    order: list[int] = []
    parent = [-1] * len(near)
    met = bytearray(len(near))
    for root in range(len(near)):
        stack = [] if met[root] else [root]
        while stack:
            v = stack.pop()
            if not met[v]:
                met[v] = 1
                order.append(v)
                for w in near[v]:
                    if not met[w]:
                        parent[w] = v
                        stack.append(w)
    return order, parent
