"""The check of a graph: its passes in order, samples, exclusions, groups."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from ep_nnapi.capability.graph import judge_graph
from ep_nnapi.errors import TRIED
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from tests.onnx_graph import graph_of
from tests.ort.models import model as small
from tests.ort.models import node, tensor
from tests.provider.test_planner import CHAIN, model


def symbolic() -> Graph:
    """The chain with the first dimension N."""
    proto = model("Abs x -> a", "Neg a -> b", "Tanh b -> y")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    return graph_of(proto)


def reasons(graph: Graph, **options: object) -> dict[str, Reason]:
    found = judge_graph(graph, Target(8), parse(options))
    return {r.node: r.reason for r in found.rejections()}


def test_a_static_graph_is_its_own_sample() -> None:
    found = judge_graph(graph_of(CHAIN), Target(8), parse({}))
    (sample,) = found.samples
    assert set(sample) == set(found.nodes) == {0, 1, 2, 3}
    assert found.rejected == {}


def test_symbolic_dimensions_have_two_samples() -> None:
    found = judge_graph(symbolic(), Target(8), parse({}))
    first, second = found.samples
    assert set(first) == set(second) == {0, 1, 2}
    sizes = [s[0].node.inputs[0].shape for s in (first, second)]
    assert sizes[0] != sizes[1]
    assert found.nodes[0].inputs[0].dims[0] == "N"  # the graph itself stays symbolic


def test_a_fixed_dimension_has_one_sample() -> None:
    found = judge_graph(symbolic(), Target(8), parse({"fix": "N=5"}))
    (sample,) = found.samples
    assert sample[0].node.inputs[0].shape[0] == 5


@pytest.mark.parametrize(("fix", "tried"), [({}, True), ({"fix": "n=5"}, False)])
def test_a_rejection_says_that_its_sizes_were_only_tried(fix: dict[str, str], tried: bool) -> None:
    """No number of rows of 7 has 13 elements."""
    nodes, ends = [node("Reshape", "x to", "y")], [tensor("x", ("n", 7)), tensor("y", (1, 13))]
    made = onnx.load_from_string(small(nodes, ends[:1], ends[1:], {"to": np.array([1, 13])}))
    (refused,) = judge_graph(graph_of(made), Target(8), parse(fix)).rejections()
    assert refused.reason is Reason.SHAPE
    assert "elements do not fit (1, 13)" in refused.detail
    assert refused.detail.endswith(TRIED) == tried


def test_without_dynamic_shapes_symbolic_dimensions_are_rejected() -> None:
    found = reasons(symbolic(), dynamic_shapes="off")
    assert found == dict.fromkeys(("Abs_a", "Neg_b", "Tanh_y"), Reason.SHAPE)


def test_exclusion_by_the_user_and_by_another_provider_differ() -> None:
    graph = graph_of(CHAIN)
    nodes = tuple(replace(n, claimed_by="Other" * (n.op_type == "Neg")) for n in graph.nodes)
    found = reasons(replace(graph, nodes=nodes), exclude="Abs,Neg")
    assert found == {"Abs_a": Reason.EXCLUDED, "Neg_b": Reason.CLAIMED}


def test_stop_operators_exclude_all_that_depends_on_them() -> None:
    found = reasons(graph_of(CHAIN), partitioning_stop_ops="Exp")
    assert found == dict.fromkeys(("Exp_c", "Tanh_y"), Reason.EXCLUDED)


def test_a_cluster_is_rejected_whole_or_by_name() -> None:
    found = judge_graph(graph_of(CHAIN), Target(8), parse({}))
    found.drop((0, 1), ("Neg_b",), Reason.DRIVER, "declined")
    assert {r.node: r.reason for r in found.rejections()} == {"Neg_b": Reason.DRIVER}
    found.drop((2, 3), (), Reason.NOT_WORTH_IT, "too small")
    assert [r.node for r in found.rejections()] == ["Neg_b", "Exp_c", "Tanh_y"]
    assert set(found.samples[0]) == {0}
