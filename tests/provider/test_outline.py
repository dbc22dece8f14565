"""Outlines of graphs in the reports of check: nodes, values, types and estimated times."""

import math

import onnx
import pytest

import ep_nnapi
from ep_nnapi.costs import PHONE
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.provider.outline import outline_of, type_of
from tests.cli.command import DIGITS
from tests.onnx_graph import graph_of, parsed
from tests.provider.test_planner import model, plan

GRAPH = graph_of(model("Abs x -> a", "Add a a -> b", "Neg b -> y"))
KNOWN = {n.id: n for n in GRAPH.nodes}


def _if_model() -> onnx.ModelProto:
    """An If with a node in each of its branches, which read x from outside."""
    then, other = (
        f"{op} () => (float[2] {op}_out) {{ [{op}] {op}_out = {op} (x) }}" for op in ("Abs", "Neg")
    )
    return parsed(
        f"""(bool c, float[2] x) => (float[2] y) {{
        [choice] y = If (c) <then_branch = {then}, else_branch = {other}> }}""",
        21,
    )


IF_MODEL = _if_model()


def test_nodes_with_values_and_types():
    found = outline_of(GRAPH, KNOWN, PHONE)
    assert [(n.name, n.op_type, n.inputs, n.outputs) for n in found] == [
        (n.name, n.op_type, tuple(v.name for v in n.inputs), tuple(v.name for v in n.outputs))
        for n in GRAPH.nodes
    ]
    assert found[0].types == (type_of(GRAPH.nodes[0].outputs[0]),)


def test_times_are_those_of_the_cost_model():
    found = outline_of(GRAPH, KNOWN, PHONE)
    assert [n.cpu_us for n in found] == [PHONE.cpu.time(n) for n in GRAPH.nodes]
    assert [n.nnapi_us for n in found] == [PHONE.nnapi.time(n) for n in GRAPH.nodes]


def test_nodes_that_are_not_known_have_no_time():
    """The nodes of a QDQ group but the one whose id the group has."""
    found = outline_of(GRAPH, {GRAPH.nodes[1].id: GRAPH.nodes[1]}, PHONE)
    assert [n.cpu_us > 0 for n in found] == [False, True, False]


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ((1, 8), "float [1, 8]"),
        ((), "float []"),
        (("batch", None), "float [batch, ?]"),
        (None, "float"),
    ],
)
def test_types(dims: tuple[int | str | None, ...] | None, text: str):
    assert type_of(Value("x", DType.FLOAT, dims)) == text


def test_check_outlines_all_graphs():
    report = ep_nnapi.check(IF_MODEL)
    outlines = {g.key: [(n.name, n.inputs) for n in g.outline] for g in report.graphs}
    assert outlines == {
        "choice.then_branch": [("Abs", ("x",))],
        "choice.else_branch": [("Neg", ("x",))],
        "": [("choice", ("c", "x"))],
    }


def test_clusters_have_estimated_times():
    """The border's bytes and one run of a cluster are NNAPI's alone."""
    report = ep_nnapi.check(DIGITS)
    (cluster,) = report.clusters
    nodes = report.graphs[0].outline
    border = PHONE.per_cluster + cluster.boundary_bytes * PHONE.per_byte
    assert math.isclose(cluster.cpu_us, sum(n.cpu_us for n in nodes))
    assert math.isclose(cluster.nnapi_us, border + sum(n.nnapi_us for n in nodes))


def test_sessions_of_users_need_no_outline():
    found = plan(model("Abs x -> y"))
    assert found.report.outline == ()
    assert found.report.clusters[0].cpu_us is None
