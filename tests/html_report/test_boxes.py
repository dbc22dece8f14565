"""Boxes of a drawing: clusters, CPU regions and parts, each node in one, none in a cycle."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import networkx as nx
import pytest

import ep_nnapi
from ep_nnapi.errors import Rejection
from ep_nnapi.html_report.boxes import (
    CPU,
    LIMIT,
    SMALL,
    BoxKind,
    Drawing,
    Edge,
    Rows,
    Variant,
    drawing_of,
    pictures_of,
    rows_of,
)
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report.report import ClusterReport, GraphReport, NodeReport, Report, combine
from tests.cli.command import DIGITS
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


def test_a_diamond():
    found = rows_of(["a", "b", "c", "d"], [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert found.rows == (("a",), ("b", "c"), ("d",))
    expected = (Edge("a", "b", ()), Edge("a", "c", ()), Edge("b", "d", ()), Edge("c", "d", ()))
    assert found.edges == expected


def test_nothing():
    assert rows_of([], []) == Rows((), ())


def test_a_source_is_just_before_its_first_reader():
    found = rows_of(["a", "b", "c", "late"], [(0, 1), (1, 2), (3, 2)])
    assert [set(row) for row in found.rows] == [{"a"}, {"b", "late"}, {"c"}]


def test_an_edge_over_a_row_has_a_lane_there():
    found = rows_of(["a", "b", "c"], [(0, 1), (1, 2), (0, 2)])
    assert found.edges[1] == Edge("a", "c", ("l0.1",))
    assert set(found.rows[1]) == {"b", "l0.1"}


def test_edges_of_one_source_share_lanes():
    found = rows_of(["a", "b", "c", "d"], [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)])
    ways = {(e.source, e.target): e.lanes for e in found.edges}
    assert ways["a", "c"] == ("l0.1",)
    assert ways["a", "d"] == ("l0.1", "l0.2")
    assert sum(row.count("l0.1") for row in found.rows) == 1


def test_an_edge_over_eight_rows_has_lanes_and_a_longer_one_has_none():
    def way(length: int) -> tuple[str, ...]:
        chain = [(i, i + 1) for i in range(length)]
        found = rows_of([f"n{i}" for i in range(length + 1)], [*chain, (0, length)])
        return next(e.lanes for e in found.edges if e.target == f"n{length}" and e.source == "n0")

    assert len(way(8)) == 7
    assert way(9) == ()


def test_crossed_pairs_are_uncrossed():
    """a-d and b-c cross in the given order."""
    found = rows_of(["a", "b", "c", "d"], [(0, 3), (1, 2)])
    top, bottom = found.rows
    assert (top.index("a") < top.index("b")) == (bottom.index("d") < bottom.index("c"))


def test_a_cycle_shares_a_row():
    """Clusters are convex; a violation of that is drawn all the same."""
    found = rows_of(["a", "b", "c"], [(0, 1), (1, 0), (1, 2)])
    assert [set(row) for row in found.rows] == [{"a", "b"}, {"c"}]


def test_random_graphs_by_the_definition():
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201 (to repeat a failure)
    chance = random.Random(seed)
    for _ in range(50):
        count = chance.randint(1, 25)
        edges = {(a, b) for b in range(count) for a in range(b) if chance.random() < 3 / count}
        keys = [f"n{i}" for i in range(count)]
        found = rows_of(keys, edges)
        row_of = {key: i for i, row in enumerate(found.rows) for key in row}
        assert sorted(k for k in row_of if k[0] == "n") == sorted(keys)
        assert sum(map(len, found.rows)) == len(row_of)  # each once
        assert {(e.source, e.target) for e in found.edges} == {(keys[a], keys[b]) for a, b in edges}
        for e in found.edges:
            assert row_of[e.source] < row_of[e.target]
            way = [row_of[k] for k in (e.source, *e.lanes, e.target)]
            assert not e.lanes or way == list(range(way[0], way[-1] + 1))
        longest = nx.dag_longest_path_length(nx.DiGraph(edges)) if edges else 0
        assert len(found.rows) == longest + 1


BLOCK = 4  # nodes


def pictured(report: Report) -> dict[str, object]:
    (picture,) = pictures_of([Variant("level", report)])
    return json.loads(json.dumps(picture))


def children(box: dict[str, object]) -> set[str]:
    return {key for row in box["rows"] for key in row if key[0] != "l"}


def test_a_small_model_shows_each_node_with_its_decision():
    report = ep_nnapi.check(DIGITS, exclude="MaxPool")
    found = pictured(report)
    assert found["summary"] == "6 of 8 nodes on NNAPI, 3 clusters"
    names = {n["labels"][1]: n["cluster"] for n in found["nodes"].values()}
    assert names == {
        **{name: i for i, c in enumerate(report.clusters) for name in c.nodes},
        **{r.node: -1 for r in report.rejections},
    }
    assert {b["labels"][0] for b in found["boxes"][:-1]} == {f"Cluster {i}" for i in range(3)}
    inside = [children(box) for box in found["boxes"]]
    assert set().union(*inside) == {*found["nodes"], *(b["key"] for b in found["boxes"][:-1])}


@pytest.mark.parametrize(("count", "opened"), [(SMALL // BLOCK, True), (SMALL // BLOCK + 1, False)])
def test_a_large_model_shows_clusters_and_what_is_between_them(count: int, opened: bool):
    report = ep_nnapi.check(blocks(count))
    found = pictured(report)
    assert found["opened"] is opened
    assert len(found["nodes"]) == (report.nodes if opened else len(report.rejections))
    clusters = [b for b in found["boxes"] if b["cluster"] >= 0]
    assert [b["labels"][0] for b in clusters] == [f"Cluster {i}" for i in range(len(clusters))]
    counted = [set(b["labels"][1].split(", ")) for b in clusters]
    assert counted == [set(c.operators.split(", ")) for c in report.clusters]
    assert children(found["boxes"][-1]) == {
        *(b["key"] for b in found["boxes"][:-1]),
        *(k for k, n in found["nodes"].items() if n["cluster"] < 0),
    }


def test_neighbouring_levels_with_the_same_picture_share_it():
    whole, parts = ep_nnapi.check(DIGITS), ep_nnapi.check(DIGITS, exclude="MaxPool")
    found = pictures_of(
        [
            *(Variant(name, parts) for name in "1"),
            *(Variant(name, whole) for name in "234"),
            *(Variant(name, parts) for name in "56"),
        ]
    )
    assert [p["names"] for p in found] == [["1"], ["2", "3", "4"], ["5", "6"]]


def test_levels_without_a_report_have_no_picture():
    assert pictures_of([Variant("all", None, "it cannot be saved")]) == []
