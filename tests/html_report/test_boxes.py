"""Boxes of a drawing: clusters, CPU regions and parts, each node in one, none in a cycle."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx as nx
import pytest

import ep_nnapi
from ep_nnapi.errors import Rejection
from ep_nnapi.html_report.boxes import CPU, LIMIT, BoxKind, Drawing, drawing_of
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report.report import ClusterReport, GraphReport, NodeReport, Report, combine
from tests.html_report.models import blocks


def report(edges: dict[str, str], *clusters: str, key: str = "") -> Report:
    """A report of nodes in topological order: name -> the names that it reads, without spaces."""
    return combine(8, "ep-nnapi", [graph(edges, *clusters, key=key)])


def graph(edges: dict[str, str], *clusters: str, key: str = "") -> GraphReport:
    taken = "".join(clusters)
    return GraphReport(
        len(edges),
        len(taken),
        tuple(ClusterReport(tuple(c), (), (), 0, "nnapi-reference") for c in clusters),
        tuple(Rejection(n, "Det", Reason.OP, "") for n in edges if n not in taken),
        key=key,
        outline=tuple(NodeReport(n, "Op", tuple(reads), (n,)) for n, reads in edges.items()),
    )


def contents(drawing: Drawing, kind: BoxKind) -> set[str]:
    """The names in each box of a kind."""
    return {
        "".join(sorted(drawing.nodes[i].name for i in box.nodes))
        for box in drawing.boxes
        if box.kind is kind
    }


def test_clusters_and_connected_cpu_nodes():
    found = drawing_of(report({"a": "", "b": "a", "c": "b", "d": "c", "e": "d"}, "ab", "e"))
    assert contents(found, BoxKind.CLUSTER) == {"ab", "e"}
    assert contents(found, BoxKind.CPU) == {"cd"}
    assert found.clusters == (0, 0, CPU, CPU, 1)
    assert found.readers == ((1,), (2,), (3,), (4,), ())
    assert found.boxes[-1].rows.rows == (("b0",), ("b2",), ("b1",))


def test_a_single_cpu_node_needs_no_box():
    found = drawing_of(report({"a": "", "b": "a"}, "a"))
    assert found.boxes[-1].rows.rows == (("b0",), ("n1",))


def test_cpu_nodes_before_and_after_a_cluster_are_apart():
    """p and q are connected, but in one box they would form a cycle with the cluster."""
    found = drawing_of(report({"p": "", "a": "p", "q": "pa"}, "a"))
    assert found.boxes[-1].rows.rows[0] == ("n0",)
    assert found.boxes[-1].rows.rows[-1] == ("n2",)


def test_a_subgraph_is_a_box_after_its_node():
    inner = graph({"t": "x", "u": "t"}, "tu", key="choice.then_branch")
    outer = graph({"x": "", "choice": "x", "y": "c"}, "x")
    outline = [*outer.outline]
    outline[1] = NodeReport("choice", "If", ("x",), ("c",))
    outer = GraphReport(3, 1, outer.clusters, outer.rejections, outline=tuple(outline))
    found = drawing_of(combine(8, "ep-nnapi", [inner, outer]))
    (box,) = [b for b in found.boxes if b.kind is BoxKind.SUBGRAPH]
    assert (box.title, box.nodes) == ("choice.then_branch", (0, 1))
    row_of = {k: i for i, row in enumerate(found.boxes[-1].rows.rows) for k in row}
    choice = next(b.key for b in found.boxes if 3 in b.nodes and b.kind is BoxKind.CPU)
    assert row_of[box.key] > row_of[choice]


@pytest.mark.parametrize(("count", "parts"), [(LIMIT, 0), (LIMIT + 1, 2), (LIMIT * 4, 4)])
def test_a_box_of_more_than_the_limit_has_parts(count: int, parts: int):
    names = [chr(0x4E00 + i) for i in range(count)]
    chain = {n: names[i - 1] if i else "" for i, n in enumerate(names)}
    found = drawing_of(report(chain, "".join(names)))
    pieces = [b for b in found.boxes if b.kind is BoxKind.PART]
    assert len(pieces) == parts
    assert all(b.cluster == 0 and len(b.nodes) <= LIMIT for b in pieces)


def test_parts_of_parts():
    names = [chr(0x4E00 + i) for i in range(LIMIT * LIMIT // 4 * 5)]
    found = drawing_of(report(dict.fromkeys(names, "")))
    assert all(sum(map(len, b.rows.rows)) <= LIMIT for b in found.boxes)
    assert sorted(found.boxes[-1].nodes) == list(range(len(names)))


def valid(found: Drawing) -> None:
    """Each node and box has one parent, and no box is in a cycle among its siblings."""
    parents: dict[str, str] = {}
    for box in found.boxes:
        children = [k for row in box.rows.rows for k in row if k[0] != "l"]
        assert len(children) <= LIMIT
        for child in children:
            assert parents.setdefault(child, box.key) == box.key
        siblings = nx.DiGraph((e.source, e.target) for e in box.rows.edges)
        assert nx.is_directed_acyclic_graph(siblings)
    keys = {f"n{i}" for i in range(len(found.nodes))} | {b.key for b in found.boxes[:-1]}
    assert parents.keys() == keys


def test_random_partitions():
    """Clusters are intervals of the topological order, hence convex."""
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201 (to repeat a failure)
    chance = random.Random(seed)
    for _ in range(40):
        names = [chr(0x4E00 + i) for i in range(chance.randint(1, 60))]
        edges = {
            n: "".join(m for m in names[:i] if chance.random() < 2 / len(names))
            for i, n in enumerate(names)
        }
        cuts = sorted(chance.sample(range(len(names) + 1), min(4, len(names) + 1)))
        clusters = ["".join(names[a:b]) for a, b in pairwise(cuts)][::2]
        found = drawing_of(report(edges, *clusters))
        valid(found)
        assert contents(found, BoxKind.CLUSTER) == {"".join(sorted(c)) for c in clusters if c}


def test_a_real_model():
    checked = ep_nnapi.check(blocks(60))
    found = drawing_of(checked)
    valid(found)
    boxes = {b.cluster: b for b in found.boxes if b.kind is BoxKind.CLUSTER}
    for number, cluster in enumerate(checked.clusters):
        assert {found.nodes[i].name for i in boxes[number].nodes} == set(cluster.nodes)
