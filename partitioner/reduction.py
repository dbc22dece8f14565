"""Exact reduction: what is decided without a search, and the smaller regions that are left.

Definition: a *joint* is an edge between capable nodes, unless a path beside it passes an incapable
node. Clusters are connected by joints, so each lies within one component of them. A node that reads
nothing but `u`, and is read by one capable node at most, can move from any cluster to that of `u`:
the cluster it leaves stays connected, and nothing waits for more than before. The same holds with
edges turned round, and for incapable nodes next to incapable ones; a *unit* is what moves together.
Guarantee: some best partition consists of what is decided here and of any best partitions of the
regions. A cycle of clusters, contracted, is a cycle of components, so it lies in one strongly
connected part of their graph; a component that is such a part by itself is one cluster. The other
parts are the regions, whose units have the same lowest cost: nodes move where it costs no bytes.
Cost: O(n + m) for the regions; as much for units, again while more than one node in `RARE` moves.
Source: strongly connected components by networkx (after Nuutila and Soisalon-Soininen, 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import networkx as nx

from partitioner.graph import Region, Rows, components, inverse
from partitioner.tensors import TensorUse, renamed

LANDMARKS = 4096  # incapable nodes that are looked at, at most,
BITS = 1 << 28  # and so many bits for all nodes together
RARE = 50  # where only one node in so many moves, the other moves are not worth their time


def reduced(region: Region) -> tuple[list[int], list[list[int]]]:
    """The component of each node, and the nodes of every region; other components are clusters."""
    component = components(len(region.preds), joints(region))
    rows = zip(component, region.preds, strict=True)
    quotient = nx.DiGraph((component[u], c) for c, row in rows for u in row if component[u] != c)
    parts = [part for part in nx.strongly_connected_components(quotient) if len(part) > 1]
    inside = inverse(component) if parts else []
    members = [sorted(v for c in part for v in inside[c]) for part in parts]
    return component, sorted(members, key=lambda part: (len(part), part[0]))


def joints(region: Region) -> Iterator[tuple[int, int]]:
    """Joints, what reads first; of more than `LANDMARKS` incapable nodes as many are looked at."""
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
                    yield v, u


def _spread(reads: Rows, order: Iterable[int], marks: Mapping[int, int]) -> list[int]:
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


def shortened(
    region: Region, tensors: Sequence[TensorUse]
) -> tuple[Region, list[TensorUse], list[int]]:
    """The region with its units as nodes, the tensors between them, and the unit of each node."""
    unit = list(range(len(region.preds)))
    units, priced = region, renamed(tensors, unit)
    while True:
        into = _moves(units, priced)
        if len(set(into)) >= len(into) - len(into) // RARE:
            return units, priced, unit
        units, where = units.contracted(into)
        priced, unit = renamed(priced, where), [where[v] for v in unit]


def _moves(region: Region, tensors: Sequence[TensorUse]) -> list[int]:
    """For each node the one that it moves to, or itself; what another has moved to stays."""
    capable = region.capable
    touching: list[list[tuple[int, set[int]]]] = [[] for _ in capable]
    for tensor in tensors:
        apart, touched = tensor.price(2) - tensor.price(1), set(tensor.touched)
        for v in touched:
            touching[v].append((apart, touched))
    into, fixed = list(range(len(capable))), bytearray(len(capable))
    for v, rows in enumerate(zip(region.preds, region.succs, strict=True)):
        for near, far in (rows, rows[::-1]):
            if into[v] == v and not fixed[v] and len(near) == 1 and capable[near[0]] == capable[v]:
                others = sum([capable[w] for w in far]) if capable[v] else 0
                if not others or (others == 1 and _saved(touching[v], near[0]) >= 0):
                    into[v] = into[near[0]]
                    fixed[into[v]] = 1  # so no move hinders another
    return into


def _saved(tensors: Iterable[tuple[int, set[int]]], host: int) -> int:
    """The bytes that a move to `host` saves at least: price apart and nodes of what it touches."""
    known = [(apart, len(touched), host in touched) for apart, touched in tensors]
    gains = sum(apart for apart, count, near in known if near and count == 2)
    return gains - sum(apart for apart, _, near in known if not near)
