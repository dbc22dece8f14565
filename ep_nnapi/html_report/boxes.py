"""Nested boxes of a drawing: clusters, regions of CPU nodes, and parts of large ones.

A box has at most LIMIT children, so that opening one draws little, whatever the size of the model.

The layout is layered: the row of each child, the order in rows, the ways of edges. The page
computes coordinates, which follow from the sizes of boxes as they are opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import networkx as nx

from ep_nnapi.report.report import NodeReport, Report, operator_counts

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
    generations = list(nx.topological_generations(condensed))
    rank = {c: row for row, generation in enumerate(generations) for c in generation}
    for c in generations[0] if generations else ():
        if condensed.out_degree(c):
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
        for previous, row in pairwise(layers.rows if down else layers.rows[::-1]):
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


LIMIT = 150
"""Largest number of children of a box."""
CPU = -1
"""In place of a cluster's number, for nodes that the CPU provider runs."""


class BoxKind(StrEnum):
    """Kinds of boxes."""

    CLUSTER = "cluster"
    CPU = "cpu"
    PART = "part"
    MODEL = "model"
    SUBGRAPH = "subgraph"


@dataclass(frozen=True, slots=True)
class Box:
    """A box with children: keys of boxes ("b3") and of nodes ("n17"), drawn in `rows`.

    cluster  the number of the cluster that it is, or that it is a part of; CPU for others
    nodes    numbers of all nodes inside
    """

    key: str
    kind: BoxKind
    title: str
    cluster: int
    nodes: tuple[int, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Drawing:
    """All nodes of a report, the cluster of each, and the boxes; the last box is the whole model.

    readers  numbers of the nodes that read outputs of each node
    """

    nodes: tuple[NodeReport, ...]
    clusters: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Something to draw in a box: a node, or a box of nodes; `nodes` in topological order."""

    key: str
    nodes: tuple[int, ...]


def drawing_of(report: Report) -> Drawing:
    """The drawing of a report: its main graph, and a box for each inner graph."""
    nodes: list[NodeReport] = []
    clusters: list[int] = []
    graphs: list[range] = []
    for _, decided in report.decided():
        graphs.append(range(len(nodes), len(nodes) + len(decided)))
        nodes += (node for node, _, _ in decided)
        clusters += (CPU if cluster is None else cluster for _, cluster, _ in decided)
    dag = _dag(nodes, graphs, [g.key for g in report.graphs])
    builder = _Builder(nodes, clusters, dag, [])
    units: list[_Unit] = []
    for key, members in zip((g.key for g in report.graphs), graphs, strict=True):
        inside = builder.regions(members)
        units += [builder.box(BoxKind.SUBGRAPH, key, CPU, inside)] if key else inside
    builder.box(BoxKind.MODEL, "model", CPU, units)
    readers = tuple(tuple(sorted(dag.successors(i))) for i in range(len(nodes)))
    return Drawing(tuple(nodes), tuple(clusters), readers, tuple(builder.boxes))


def _dag(nodes: Sequence[NodeReport], graphs: Iterable[range], keys: Sequence[str]) -> nx.DiGraph:
    """The nodes by number, with an edge from each producer to each reader of its outputs.

    A subgraph reads values of the graphs around it, and follows the node that it belongs to.
    """
    dag = nx.DiGraph()
    dag.add_nodes_from(range(len(nodes)))
    outer = {name: i for i, node in enumerate(nodes) for name in node.outputs}
    number = {node.name: i for i, node in enumerate(nodes)}
    for key, members in zip(keys, graphs, strict=True):
        own = {name: i for i in members for name in nodes[i].outputs}
        parent = number.get(key.rpartition(".")[0]) if key else None
        for i in members:
            if parent is not None and parent not in members:
                dag.add_edge(parent, i)
            for name in nodes[i].inputs:
                producer = own.get(name, outer.get(name))
                if producer is not None and producer != i:
                    dag.add_edge(producer, i)
    return dag


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes the boxes of one report."""

    nodes: Sequence[NodeReport]
    clusters: Sequence[int]
    dag: nx.DiGraph
    boxes: list[Box]

    def regions(self, members: Iterable[int]) -> list[_Unit]:
        """The clusters of a graph and its regions of CPU nodes, none inside a cycle.

        A region is a connected set of CPU nodes with the same number of clusters before them on
        the path with most clusters.
        """
        graph = self.dag.subgraph(members)
        found: dict[int, list[int]] = {}
        for i in graph:
            found.setdefault(self.clusters[i], []).append(i)
        alone = found.pop(CPU, [])
        depths = self._clusters_before(graph)
        same_depth = nx.Graph()
        same_depth.add_nodes_from(alone)
        on_cpu = set(alone)
        same_depth.add_edges_from(
            (a, b) for a, b in graph.edges if a in on_cpu and b in on_cpu and depths[a] == depths[b]
        )
        units = [
            self.box(BoxKind.CLUSTER, f"cluster {c}", c, self._leaves(ids))
            for c, ids in found.items()
        ]
        for region in nx.connected_components(same_depth):
            leaves = self._leaves(sorted(region))
            several = len(leaves) > 1
            units += [self.box(BoxKind.CPU, "CPU", CPU, leaves)] if several else leaves
        return units

    def _clusters_before(self, graph: nx.DiGraph) -> dict[int, int]:
        """The largest number of clusters that a path to each node has gone through."""
        first: dict[int, int] = {}  # of each cluster, the node that represents it
        unit = {i: first.setdefault(c, i) if (c := self.clusters[i]) != CPU else i for i in graph}
        quotient = nx.DiGraph()
        quotient.add_nodes_from(unit.values())
        quotient.add_edges_from((unit[a], unit[b]) for a, b in graph.edges if unit[a] != unit[b])
        depths: dict[int, int] = {}
        for component in _in_order(quotient):
            before = {p for u in component for p in quotient.predecessors(u)} - component
            depth = max((depths[p] + (self.clusters[p] != CPU) for p in before), default=0)
            depths.update(dict.fromkeys(component, depth))
        return {i: depths[unit[i]] for i in graph}

    def _leaves(self, ids: Iterable[int]) -> list[_Unit]:
        return [_Unit(f"n{i}", (i,)) for i in ids]

    def box(self, kind: BoxKind, title: str, cluster: int, children: Sequence[_Unit]) -> _Unit:
        """Adds a box; more than LIMIT children go into parts, in topological order."""
        edges = self._edges(children)
        if len(children) > LIMIT:
            order = nx.DiGraph()
            order.add_nodes_from(range(len(children)))
            order.add_edges_from(edges)
            listed = [children[i] for found in _in_order(order) for i in sorted(found)]
            children = [
                self.box(BoxKind.PART, self._ends(piece), cluster, piece)
                for piece in _split(listed)
            ]
            edges = self._edges(children)
        nodes = tuple(i for child in children for i in child.nodes)
        unit = _Unit(f"b{len(self.boxes)}", nodes)
        rows = rows_of([c.key for c in children], edges)
        self.boxes.append(Box(unit.key, kind, title, cluster, nodes, rows))
        return unit

    def _edges(self, children: Sequence[_Unit]) -> list[tuple[int, int]]:
        """Edges between children, by their positions; each once."""
        place = {i: p for p, child in enumerate(children) for i in child.nodes}
        found = {
            (p, place[reader])
            for i, p in place.items()
            for reader in self.dag.successors(i)
            if reader in place and place[reader] != p
        }
        return sorted(found)

    def _ends(self, units: Sequence[_Unit]) -> str:
        first, last = self.nodes[units[0].nodes[0]], self.nodes[units[-1].nodes[-1]]
        return f"{first.name} to {last.name}"


def _in_order(graph: nx.DiGraph) -> Iterator[set[int]]:
    """Strongly connected sets in topological order, the smallest first among equals.

    Clusters are convex, so each set has one member; a drawing must not fail if that is violated.
    """
    condensed = nx.condensation(graph)
    members: Mapping[int, set[int]] = condensed.nodes.data("members")
    for component in nx.lexicographical_topological_sort(condensed, key=lambda c: min(members[c])):
        yield members[component]


def _split(units: Sequence[_Unit]) -> Iterator[Sequence[_Unit]]:
    """Cuts a sequence into at most LIMIT pieces of about equal length."""
    pieces = min(LIMIT, -(-len(units) // LIMIT))
    for k in range(pieces):
        piece = units[k * len(units) // pieces : (k + 1) * len(units) // pieces]
        if piece:
            yield piece


SMALL = 60
"""Largest number of nodes that a picture shows singly; in larger ones clusters stay closed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of a comparison: a level, and the report at it, or the error in its place."""

    name: str
    report: Report | None
    error: str = ""


def pictures_of(variants: Iterable[Variant]) -> list[dict[str, object]]:
    """Returns the data of one picture for each level, for `json.dumps`.

    Neighbouring levels with the same picture share it: `names` are theirs.
    """
    found: list[dict[str, object]] = []
    names: list[list[str]] = []
    for variant in variants:
        if variant.report is None or not variant.report.nodes:
            continue
        picture = _picture(variant.report)
        if found and found[-1] == picture:
            names[-1].append(variant.name)
        else:
            found.append(picture)
            names.append([variant.name])
    return [{"names": n, **picture} for n, picture in zip(names, found, strict=True)]


def _picture(report: Report) -> dict[str, object]:
    drawing = drawing_of(report)
    root = drawing.boxes[-1]
    opened = report.nodes <= SMALL
    inner = {b.key: b for b in drawing.boxes[:-1]}
    shown = list(inner) if opened else [k for row in root.rows.rows for k in row if k in inner]
    keys = {k for b in (drawing.boxes if opened else [root]) for row in b.rows.rows for k in row}
    count = len(report.clusters)
    clusters = "1 cluster" if count == 1 else f"{count} clusters"
    return {
        "summary": f"{report.taken} of {report.nodes} nodes on NNAPI, {clusters}",
        "opened": opened,
        "boxes": [_box(b, drawing) for b in (*(inner[k] for k in shown), root)],
        "nodes": {
            f"n{i}": {"cluster": cluster, "labels": [node.op_type, node.name]}
            for i, (node, cluster) in enumerate(zip(drawing.nodes, drawing.clusters, strict=True))
            if f"n{i}" in keys
        },
    }


def _box(box: Box, drawing: Drawing) -> dict[str, object]:
    names: Mapping[BoxKind, str] = {BoxKind.CLUSTER: f"Cluster {box.cluster}", BoxKind.CPU: "CPU"}
    operators = operator_counts(drawing.nodes[i].op_type for i in box.nodes)
    return {
        "key": box.key,
        "cluster": box.cluster,
        "cpu": box.kind is BoxKind.CPU,
        "labels": [names.get(box.kind, box.title), operators],
        "rows": box.rows.rows,
        "edges": [(e.source, e.target, e.lanes) for e in box.rows.edges],
    }
