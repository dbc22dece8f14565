"""Rows of children: after predecessors, few crossings, lanes for edges over several rows."""

from __future__ import annotations

import random

import networkx as nx

from ep_nnapi.html_report.boxes import Edge, Rows, rows_of


def test_a_diamond():
    found = rows_of(["a", "b", "c", "d"], [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert found.rows == (("a",), ("b", "c"), ("d",))
    assert found.edges == (
        Edge("a", "b", ()),
        Edge("a", "c", ()),
        Edge("b", "d", ()),
        Edge("c", "d", ()),
    )


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
