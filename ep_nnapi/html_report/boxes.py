"""Nested boxes of a drawing: clusters, regions of CPU nodes, and parts of large ones.

A box has at most LIMIT children, so that opening one draws little, whatever the size of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import networkx as nx

from ep_nnapi.html_report.layering import Rows, rows_of
from ep_nnapi.report.report import NodeReport, Report

LIMIT = 150
"""Largest number of children of a box."""
CPU = -1
"""In place of a cluster's number, for nodes that the CPU provider runs."""


class Kind(StrEnum):
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
    kind: Kind
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
    """The drawing of a report whose graphs have outlines."""
    nodes: list[NodeReport] = []
    clusters: list[int] = []
    graphs: list[range] = []
    first_cluster = 0
    for graph in report.graphs:
        in_cluster = {
            name: first_cluster + i for i, c in enumerate(graph.clusters) for name in c.nodes
        }
        first_cluster += len(graph.clusters)
        graphs.append(range(len(nodes), len(nodes) + len(graph.outline)))
        nodes += graph.outline
        clusters += (in_cluster.get(n.name, CPU) for n in graph.outline)
    dag = _dag(nodes, graphs, [g.key for g in report.graphs])
    builder = _Builder(nodes, clusters, dag, [])
    units: list[_Unit] = []
    for key, members in zip((g.key for g in report.graphs), graphs, strict=True):
        inside = builder.regions(members)
        units += [builder.box(Kind.SUBGRAPH, key, CPU, inside)] if key else inside
    builder.box(Kind.MODEL, "model", CPU, units)
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
            self.box(Kind.CLUSTER, f"cluster {c}", c, self._leaves(ids)) for c, ids in found.items()
        ]
        for region in nx.connected_components(same_depth):
            leaves = self._leaves(sorted(region))
            several = len(leaves) > 1
            units += [self.box(Kind.CPU, "CPU", CPU, leaves)] if several else leaves
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

    def box(self, kind: Kind, title: str, cluster: int, children: Sequence[_Unit]) -> _Unit:
        """Adds a box; more than LIMIT children go into parts, in topological order."""
        edges = self._edges(children)
        if len(children) > LIMIT:
            order = nx.DiGraph()
            order.add_nodes_from(range(len(children)))
            order.add_edges_from(edges)
            listed = [children[i] for found in _in_order(order) for i in sorted(found)]
            children = [
                self.box(Kind.PART, self._ends(piece), cluster, piece) for piece in _split(listed)
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
