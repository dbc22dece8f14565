"""Layered layout of a box's children: the row of each, the order in rows, the ways of edges.

Coordinates follow from the sizes of boxes, which change as boxes are opened. The page computes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

_SWEEPS = 4
_LONGEST = 8  # rows that an edge reserves a lane in; a longer one is drawn behind the boxes


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two children; `lanes` are the keys of the places that it goes through."""

    source: str
    target: str
    lanes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Keys of children and lanes ("l4") in rows from top to bottom, and the edges."""

    rows: tuple[tuple[str, ...], ...]
    edges: tuple[Edge, ...]


@dataclass(slots=True)
class _Layers:
    """Rows under construction; edges between neighbouring rows only, lanes included."""

    rows: list[list[str]]
    links: nx.DiGraph = field(default_factory=nx.DiGraph)


def rows_of(keys: Sequence[str], edges: Iterable[tuple[int, int]]) -> Rows:
    """Rows of children, given edges between their positions.

    Each child is in the row after its last predecessor, a source just before its first reader.
    Edges that leave a child share lanes. Orders are those of least crossings found by sweeps that
    sort each row by the mean position of neighbours; the given order breaks ties.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(keys)))
    graph.add_edges_from(edges)
    rank = _ranks(graph)
    layers = _Layers([[] for _ in range(max(rank.values(), default=-1) + 1)])
    for i, key in enumerate(keys):
        layers.rows[rank[i]].append(key)
        layers.links.add_node(key)
    routed = tuple(_routed(keys, rank, layers, a, b) for a, b in sorted(graph.edges))
    _sort(layers)
    return Rows(tuple(map(tuple, layers.rows)), routed)


def _ranks(graph: nx.DiGraph) -> Mapping[int, int]:
    """The row of each child, from 0; children of a cycle share one."""
    condensed = nx.condensation(graph)
    rank: dict[int, int] = {}
    order = list(nx.topological_sort(condensed))
    for c in order:
        rank[c] = max((rank[p] + 1 for p in condensed.predecessors(c)), default=0)
    for c in order:
        if not condensed.in_degree(c) and condensed.out_degree(c):
            rank[c] = min(rank[s] for s in condensed.successors(c)) - 1
    return {i: rank[c] for i, c in condensed.graph["mapping"].items()}


def _routed(keys: Sequence[str], rank: Mapping[int, int], layers: _Layers, a: int, b: int) -> Edge:
    """The edge from a to b, after its lanes are reserved."""
    span = rank[b] - rank[a]
    if not 1 <= span <= _LONGEST:
        return Edge(keys[a], keys[b], ())
    lanes = tuple(f"l{a}.{row}" for row in range(rank[a] + 1, rank[b]))
    for row, lane in enumerate(lanes, rank[a] + 1):
        if lane not in layers.links:
            layers.rows[row].append(lane)
    nx.add_path(layers.links, (keys[a], *lanes, keys[b]))
    return Edge(keys[a], keys[b], lanes)


def _sort(layers: _Layers) -> None:
    """Reorders rows: down by predecessors, up by successors; keeps the best order seen."""
    best, least = [list(row) for row in layers.rows], _crossings(layers)
    for sweep in range(_SWEEPS):
        if not least:
            break
        down = sweep % 2 == 0
        neighbours = layers.links.predecessors if down else layers.links.successors
        for previous, row in _pairs(layers.rows, down=down):
            place = {key: i for i, key in enumerate(previous)}
            means = {}
            for i, key in enumerate(row):
                near = [place[k] for k in neighbours(key)]
                means[key] = sum(near) / len(near) if near else i
            row.sort(key=means.__getitem__)
        found = _crossings(layers)
        if found < least:
            best, least = [list(row) for row in layers.rows], found
    layers.rows[:] = best


def _pairs(rows: list[list[str]], *, down: bool) -> Iterable[tuple[list[str], list[str]]]:
    ordered = rows if down else rows[::-1]
    return pairwise(ordered)


def _crossings(layers: _Layers) -> int:
    """The number of pairs of links that cross between neighbouring rows."""
    total = 0
    for upper, lower in pairwise(layers.rows):
        place = {key: i for i, key in enumerate(lower)}
        ends = [sorted(place[k] for k in layers.links.successors(key)) for key in upper]
        seen: list[int] = []
        for targets in ends:
            total += sum(sum(s > t for s in seen) for t in targets)
            seen += targets
    return total
