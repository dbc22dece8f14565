"""Exact reduction: what is decided without a search, and the smaller regions that are left.

Definition: two capable nodes are strictly ordered if a path from one to the other passes an
incapable node; no cluster holds both. A *joint* is an edge between capable nodes that are not.
Clusters are connected by joints, so each lies within one component of them. A node that reads
nothing but `u`, and is read by one capable node at most, can move from any cluster to that of `u`:
the cluster it leaves stays connected, and nothing waits for more than before. The same holds with
edges turned round, and for incapable nodes next to incapable ones; a *unit* is what moves together.
Guarantee: some best partition consists of what is decided here and of any best partitions of the
regions. A cycle of clusters, contracted, is a cycle of components, so it lies in one strongly
connected part of their graph; a component that is such a part by itself is one cluster. The other
parts are the regions. Of a region, units have the same lowest cost: nodes move where it costs no
bytes, wherever the other nodes are.
Cost: O(n + m) for the regions; O(m) for each node that becomes part of another unit, at worst.
Source: strongly connected components by networkx (after Nuutila and Soisalon-Soininen, 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import networkx as nx

from partitioner.graph import Region, components
from partitioner.tensors import Tensor, renamed

LANDMARKS = 4096  # incapable nodes that are looked at, at most,
BITS = 1 << 28  # and so many bits for all nodes together


def reduced(region: Region) -> tuple[list[int], list[list[int]]]:
    """The component of each node, and the nodes of every part that needs a search, ascending.

    Components outside those parts are clusters.
    """
    component = components(len(region.preds), joints(region))
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

    Exact for up to `LANDMARKS` incapable nodes; of more, so many are looked at, evenly spread, and
    an edge around others only counts as a joint.
    """
    capable, preds = region.capable, region.preds
    incapable = [v for v, flag in enumerate(capable) if not flag]
    step = max(1, -(-len(incapable) // min(LANDMARKS, 1 + BITS // max(1, len(capable)))))
    marks = {v: 1 << i for i, v in enumerate(incapable[::step])}
    above = _spread(preds, range(len(preds)), marks)
    below = _spread(region.succs, range(len(preds) - 1, -1, -1), marks)
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


def shortened(region: Region, tensors: Sequence[Tensor]) -> tuple[Region, list[Tensor], list[int]]:
    """The units of a region as a region, its tensors, and each node's unit."""
    units = _Units(region, tensors)
    waiting = list(range(len(region.preds) - 1, -1, -1))
    moves: list[tuple[int, int]] = []
    into = list(range(len(region.preds)))
    while waiting:
        v = waiting.pop()
        host = units.host(v) if into[v] == v else None
        if host is not None:
            into[v] = host
            moves.append((v, host))
            waiting += units.move(v, host)
    for v, host in reversed(moves):
        into[v] = into[host]
    smaller, unit = region.contracted(into)
    return smaller, renamed(tensors, unit), unit


class _Units:
    """A region whose nodes grow together: what each unit reads, what reads it, and its tensors."""

    def __init__(self, region: Region, tensors: Sequence[Tensor]) -> None:
        self.capable = region.capable
        self.reads = [set(row) for row in region.preds]
        self.read_by = [set(row) for row in region.succs]
        self.apart = [tensor.price(2) - tensor.price(1) for tensor in tensors]
        self.touched = [set(tensor.touched) for tensor in tensors]
        self.touches: list[set[int]] = [set() for _ in region.preds]
        for t, tensor in enumerate(tensors):
            for v in tensor.touched:
                self.touches[v].add(t)

    def host(self, v: int) -> int | None:
        """A unit that `v` can become part of."""
        capable = self.capable
        for near, far in ((self.reads[v], self.read_by[v]), (self.read_by[v], self.reads[v])):
            if len(near) == 1:
                (host,) = near
                if capable[host] == capable[v]:
                    others = sum([capable[w] for w in far]) if capable[v] else 0
                    if not others or (others == 1 and self._pays(v, host)):
                        return host
        return None

    def _pays(self, v: int, host: int) -> bool:
        """Return True if moving `v` to the cluster of `host` never costs bytes."""
        balance = 0
        for t in self.touches[v]:
            if host not in self.touched[t]:
                balance -= self.apart[t] if len(self.touched[t]) > 1 else 0
            elif len(self.touched[t]) == 2:
                balance += self.apart[t]
        return balance >= 0

    def move(self, v: int, host: int) -> list[int]:
        """Make `v` part of `host`; returns the units for which that may change something."""
        changed = {host, *self.reads[v], *self.read_by[v]}
        for mine, theirs in ((self.reads, self.read_by), (self.read_by, self.reads)):
            for w in mine[v]:
                theirs[w].discard(v)
                if w != host:
                    theirs[w].add(host)
                    mine[host].add(w)
        for t in self.touches[v]:
            self.touched[t].discard(v)
            self.touched[t].add(host)
            if len(self.touched[t]) == 2:
                changed |= self.touched[t]
        self.touches[host] |= self.touches[v]
        return sorted(changed, reverse=True)
