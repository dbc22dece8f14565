"""Decisions without a search: components, regions and units."""

import random

import networkx as nx
import pytest

from partitioner import reduction
from partitioner.graph import Region, indexed
from partitioner.reduction import joints, reduced, shortened
from partitioner.tensors import TensorUse
from tests.cases import each
from tests.partitioner.graphs import ancestors, capable_of, dag_of, random_capable, random_dag


@pytest.mark.parametrize("landmarks", [reduction.LANDMARKS, 1])
@each("seed", range(40))
def test_joints_are_the_edges_that_no_incapable_node_goes_around(seed, landmarks, monkeypatch):
    """With few landmarks some other edges count as joints, too."""
    monkeypatch.setattr(reduction, "LANDMARKS", landmarks)
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 25))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    bit = {v: 1 << i for i, v in enumerate(capable)}
    strictly = ancestors(dag, bit)[1]
    expected = {
        (graph.number[v], graph.number[u])
        for u, v in dag.edges
        if u in bit and v in bit and not strictly[v] & bit[u]
    }
    found = set(joints(graph.region))
    assert found >= expected
    assert landmarks == 1 or found == expected


def test_regions_are_components_that_wait_for_each_other():
    r"""a-b and c-d wait for each other; e, behind Z, is a cluster by itself.

    a --- b → Z → e      a → X → d
    c --- d              c → Y → b
    """
    dag = dag_of("a b Z e, c d, a X d, c Y b")
    graph = indexed(dag, capable_of(dag))
    component, parts = reduced(graph.region)
    assert [set(graph.members(part)) for part in parts] == [set("abcdXY")]
    assert component[graph.number["a"]] == component[graph.number["b"]]
    assert component[graph.number["e"]] not in {component[graph.number[v]] for v in "abcd"}


def test_a_chain_is_one_unit_up_to_where_it_is_cut_at_the_lowest_price():
    """a - b - c - d, a and d apart: the tensor of b costs least."""
    region = Region([[], [0], [1], [2]], bytearray([1, 1, 1, 1]))
    tensors = [TensorUse(size, (v, v + 1), True) for v, size in enumerate((5, 1, 5))]
    smaller, _, unit = shortened(region, tensors)
    assert len(smaller.preds) < 4
    assert unit[0] == unit[1]
    assert unit[2] == unit[3]


@each("seed", range(40))
def test_units_are_alike_capable_and_leave_a_dag(seed):
    rng = random.Random(seed)
    dag = random_dag(rng, rng.randint(1, 25))
    region = indexed(dag, random_capable(rng, dag)).region
    smaller, _, unit = shortened(region, [])
    assert all(smaller.capable[i] == region.capable[v] for v, i in enumerate(unit))
    edges = {(unit[u], unit[v]) for v, row in enumerate(region.preds) for u in row}
    assert nx.is_directed_acyclic_graph(nx.DiGraph((a, b) for a, b in edges if a != b))
