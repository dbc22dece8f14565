"""From a graph to clusters: what a device declines goes back, until every cluster compiles."""

import itertools
import math
from dataclasses import replace

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.costs import PHONE
from ep_nnapi.epcontext.layout import EP_SOURCE
from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure, SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.options.table import parse
from ep_nnapi.provider.outline import outline_of, type_of
from ep_nnapi.provider.planner import PartitionedGraph, Planner, merge_plans
from partitioner import violations
from tests.cli.command import DIGITS
from tests.faulty import FaultyDevice, compiler_of
from tests.onnx_graph import graph_of, model_of, parsed

SHAPE = (2, 3)


def model(*lines: str, outputs: str = "y", constants: str = "") -> onnx.ModelProto:
    """Nodes as "Relu x -> a", named after their first output; x, x1 ... are inputs."""
    nodes, read, written = [], [], set()
    for line in lines:
        head, _, results = line.partition(" -> ")
        op_type, *arguments = head.split()
        made = helper.make_node(op_type, arguments, results.split(), f"{op_type}_{results}")
        nodes.append(made)
        read += arguments
        written |= set(results.split())
    weights = {n: np.ones(SHAPE, np.float32) for n in constants.split()}
    given = {n: SHAPE for n in read if n not in written and n not in weights}
    return model_of(nodes, given, dict.fromkeys(outputs.split(), SHAPE), weights, opset=21)


def plan(proto: onnx.ModelProto, device: object = None, **options: object) -> PartitionedGraph:
    compiler = compiler_of(device)
    return Planner(compiler, parse(options)).plan(graph_of(proto))


def clusters(found: PartitionedGraph) -> list[tuple[str, ...]]:
    return [c.nodes for c in found.report.clusters]


def refusals(found: PartitionedGraph) -> dict[str, Reason]:
    return {r.node: r.reason for r in found.report.rejections}


CHAIN = model("Abs x -> a", "Neg a -> b", "Exp b -> c", "Tanh c -> y")


def test_a_chain_is_one_cluster():
    found = plan(CHAIN)
    assert clusters(found) == [("Abs_a", "Neg_b", "Exp_c", "Tanh_y")]
    (report,) = found.report.clusters
    assert (report.inputs, report.outputs) == (("x",), ("y",))
    assert report.boundary_bytes == 2 * 6 * 4
    assert report.device == "nnapi-reference"
    assert (found.report.nodes, found.report.capable) == (4, 4)


def test_two_islands_are_two_clusters():
    """Nothing flows between them, so nothing is gained by one model."""
    found = plan(model("Abs x -> y", "Neg x1 -> z", outputs="y z"))
    assert clusters(found) == [("Abs_y",), ("Neg_z",)]


def test_a_node_without_lowering_splits_a_chain():
    found = plan(model("Abs x -> a", "RandomNormalLike a -> b", "Neg b -> y"))
    assert clusters(found) == [("Abs_a",), ("Neg_y",)]
    assert refusals(found) == {"RandomNormalLike_b": Reason.OP}
    assert (found.report.nodes, found.report.capable) == (3, 2)


def test_a_bypassed_node_keeps_its_sides_apart():
    """Abs -> Add are connected, but as one cluster they would wait for Neg, which waits for Abs."""
    found = plan(model("Abs x -> a", "Neg a -> b", "Add a b -> y"), exclude="Neg")
    assert clusters(found) == [("Abs_a",), ("Add_y",)]


# a device that declines ----------------------------------------------------------------------


def test_what_a_device_declines_is_left_with_reason_driver():
    found = plan(CHAIN, FaultyDevice(declines=frozenset({"NEG"})))
    assert clusters(found) == [("Abs_a",), ("Exp_c", "Tanh_y")]
    (refusal,) = found.report.rejections
    assert (refusal.node, refusal.op_type, refusal.reason) == ("Neg_b", "Neg", Reason.DRIVER)
    assert refusal.detail == "faulty declines NEG"
    assert (found.report.nodes, found.report.capable) == (4, 4)


def test_declined_nodes_are_named_together():
    found = plan(CHAIN, FaultyDevice(declines=frozenset({"NEG", "TANH"})))
    assert clusters(found) == [("Abs_a",), ("Exp_c",)]
    assert refusals(found) == {"Neg_b": Reason.DRIVER, "Tanh_y": Reason.DRIVER}
    assert {r.detail for r in found.report.rejections} == {"faulty declines NEG, TANH"}


def test_a_device_that_declines_everything_leaves_everything():
    found = plan(CHAIN, FaultyDevice(every=1))
    assert clusters(found) == []
    assert set(refusals(found).values()) == {Reason.DRIVER}
    assert len(refusals(found)) == 4


def test_a_device_that_changes_its_mind_is_asked_until_it_is_stable():
    """Every third operation of whatever it is shown: smaller and smaller models are asked for."""
    names = "abcdefghijk"
    lines = [f"Abs {a} -> {b}" for a, b in zip("x" + names, names + "y", strict=True)]
    device = FaultyDevice(every=3)
    found = plan(model(*lines), device)
    assert all(len(c) < 3 for c in clusters(found))
    assert sum(map(len, clusters(found))) + len(refusals(found)) == 12
    assert len(device.compiled) >= len(clusters(found)) > 0


def test_a_fused_operation_that_is_declined_takes_all_its_nodes_along():
    proto = model("Add x x1 -> a", "Relu a -> b", "Tanh b -> y")
    found = plan(proto, FaultyDevice(declines=frozenset({"ADD"})))
    assert clusters(found) == [("Tanh_y",)]
    assert set(refusals(found)) == {"Add_a", "Relu_b"}


@pytest.mark.parametrize("declined", [{"ABS"}, {"NEG", "EXP"}, {"ADD"}, {"MUL", "ABS"}])
def test_clusters_are_legal_whatever_is_declined(declined: set[str]):
    """Against the definition, on a graph with a diamond and a bypass."""
    proto = model(
        "Abs x -> a", "Neg a -> b", "Exp a -> c", "Add b c -> d", "Mul d a -> e", "Abs e -> y"
    )
    found = plan(proto, FaultyDevice(declines=frozenset(declined)))
    dag, writer = nx.DiGraph(), {}
    for node in proto.graph.node:
        dag.add_node(node.name)
        dag.add_edges_from((writer[i], node.name) for i in node.input if i in writer)
        writer[node.output[0]] = node.name
    left = set(dag) - set(refusals(found))
    assert violations(dag, left, clusters(found)) == []


# a device that fails -------------------------------------------------------------------------


def test_a_cluster_that_does_not_compile_is_left_and_the_others_stay(caplog):
    proto = model("Abs x -> y", "Neg x1 -> z", outputs="y z")
    found = plan(proto, FaultyDevice(fails_on=frozenset({"NEG"})))
    assert clusters(found) == [("Abs_y",)]
    (refusal,) = found.report.rejections
    assert refusal.reason is Reason.DRIVER
    assert refusal.detail.startswith("faulty did not compile its cluster: ")
    assert "no NEG today" in refusal.detail
    assert f"1 of a cluster's 1 nodes are left to the CPU provider: {refusal.detail}" in caplog.text


@pytest.mark.parametrize("nodes", [3, 64])
def test_a_device_that_compiles_nothing_is_tried_a_bounded_number_of_times(nodes: int):
    """Once for the cluster, and 24 times for parts of it; it may take seconds each."""
    tried = []

    class Hopeless(FaultyDevice):
        def prepare(self, model: Model, options: CompileOptions) -> object:
            tried.append(len(model.operations))
            raise RuntimeFailure("ANeuralNetworksCompilation_finish", "ANEURALNETWORKS_OP_FAILED")

    names = ["x", *(f"v{i}" for i in range(1, nodes)), "y"]
    lines = [f"Neg {a} -> {b}" for a, b in itertools.pairwise(names)]
    found = plan(model(*lines), Hopeless())
    assert clusters(found) == []
    assert set(refusals(found).values()) == {Reason.DRIVER}
    assert len(tried) <= 25
    assert tried[:2] == [nodes, nodes // 2]


def test_one_node_that_does_not_compile_is_found_among_many():
    """Halving 64 nodes takes 6 steps of two tries."""
    names = ["x", *(f"v{i}" for i in range(1, 64)), "y"]
    kinds = ["Exp" if i == 37 else "Neg" for i in range(64)]
    lines = [f"{k} {a} -> {b}" for k, (a, b) in zip(kinds, itertools.pairwise(names), strict=True)]
    found = plan(model(*lines), FaultyDevice(fails_on=frozenset({"EXP"})))
    assert refusals(found) == {"Exp_v38": Reason.DRIVER}
    assert list(map(len, clusters(found))) == [37, 26]


def test_a_compiled_cluster_is_compiled_once():
    """The second round asks again only for what is new."""
    proto = model("Abs x -> y", "Neg x1 -> a", "Exp a -> z", outputs="y z")
    device = FaultyDevice(declines=frozenset({"EXP"}))
    found = plan(proto, device)
    assert clusters(found) == [("Abs_y",), ("Neg_a",)]
    assert [[o.spec.name for o in m.operations] for m in device.compiled] == [["ABS"], ["NEG"]]


@pytest.mark.parametrize("error", [RuntimeFailure("a", "b"), SpecError("illegal")])
def test_a_device_that_fails_when_asked_loses_its_cluster(error: Exception, monkeypatch):
    def supported(*_: object):
        raise error

    monkeypatch.setattr(HostRuntime, "supported", supported)
    found = plan(CHAIN)
    assert clusters(found) == []
    assert set(refusals(found).values()) == {Reason.DRIVER}
    assert str(error) in found.report.rejections[0].detail


# what is left out on purpose -----------------------------------------------------------------


@pytest.mark.parametrize("given", ["Neg", "Neg_b", "Neg_b,Neg"])
def test_exclude_by_operator_or_name(given: str):
    found = plan(CHAIN, exclude=given)
    assert clusters(found) == [("Abs_a",), ("Exp_c", "Tanh_y")]
    (refusal,) = found.report.rejections
    assert (refusal.reason, refusal.detail) == (Reason.EXCLUDED, "excluded by the option exclude")
    assert found.report.capable == 3


def test_exclude_of_what_is_not_there_changes_nothing():
    assert clusters(plan(CHAIN, exclude="Conv,nowhere")) == clusters(plan(CHAIN))


def test_what_another_provider_has_is_left_to_it():
    graph = graph_of(CHAIN)
    nodes = tuple(replace(n, claimed_by="Other" * (n.op_type == "Neg")) for n in graph.nodes)
    compiler = compiler_of()
    found = Planner(compiler, parse({})).plan(replace(graph, nodes=nodes))
    assert clusters(found) == [("Abs_a",), ("Exp_c", "Tanh_y")]
    (refusal,) = found.report.rejections
    assert (refusal.reason, refusal.detail) == (Reason.CLAIMED, "already assigned to Other")


def test_constants_alone_are_left_to_onnxruntime():
    """It computes them once, when the session is made."""
    proto = model("Abs w -> y", "Neg x -> z", outputs="y z", constants="w")
    found = plan(proto)
    assert clusters(found) == [("Neg_z",)]
    assert refusals(found) == {"Abs_y": Reason.CONSTANT_NODE}
    assert "constants only" in found.report.rejections[0].detail


def test_a_graph_without_nodes():
    found = plan(model(outputs=""))
    assert (found.report.nodes, found.report.capable) == (0, 0)
    assert clusters(found) == []


# repeatable ----------------------------------------------------------------------------------


def test_the_same_graph_is_planned_the_same():
    first, again = plan(CHAIN), plan(CHAIN)
    assert first.report == again.report
    assert [c.models for c in first.clusters] == [c.models for c in again.clusters]


def test_refusals_are_in_the_graphs_order():
    proto = model("Neg x -> a", "Abs x -> b", "Exp x1 -> c", outputs="a b c")
    found = plan(proto, FaultyDevice(declines=frozenset({"NEG"})), exclude="Exp")
    assert [r.node for r in found.report.rejections] == ["Neg_a", "Exp_c"]


# Plans of one graph before and after ONNX Runtime has inlined its functions

# RandomNormalLike has no lowering.
BEFORE = model("Abs x -> a", "RandomNormalLike a -> r", "Neg x1 -> y", outputs="r y")


def fused(claims: dict[str, str]) -> Graph:
    """The graph as it is shown again: with a fused node for the cluster of Abs."""
    graph = graph_of(model("Abs x -> a", "RandomNormalLike a -> r", "Exp x1 -> y", outputs="r y"))
    nodes = [replace(n, claimed_by=claims.get(n.op_type, "")) for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def test_clusters_of_before_stay_in_the_plan():
    """Abs was taken and is now a fused node; Neg was a function, inlined as Exp."""
    before = plan(BEFORE, exclude="Neg")
    now = plan(model("RandomNormalLike x -> r", "Exp x1 -> y", outputs="r y"))
    shown = fused({"Abs": EP_SOURCE, "RandomNormalLike": "CPUExecutionProvider"})
    merged = merge_plans(before, replace_report(now, nodes=3), shown)
    assert clusters(merged) == [("Abs_a",), ("Exp_y",)]
    assert refusals(merged) == {"RandomNormalLike_r": Reason.OP}
    assert (merged.report.nodes, merged.report.capable) == (3, 2)
    assert merged.report.lower_bound == 2


def replace_report(found, **changes):
    return replace(found, report=replace(found.report, **changes))


def test_a_graph_shown_again_unchanged_is_planned_anew():
    """Without fused nodes the clusters of before were not taken by ONNX Runtime."""
    before, now = plan(BEFORE), plan(BEFORE)
    assert clusters(merge_plans(before, now, fused({}))) == clusters(now)


def test_a_node_left_to_another_provider_keeps_its_reason():
    before = plan(BEFORE, exclude="Neg")
    now = plan(BEFORE)
    rejections = [replace(r, detail="later") for r in now.report.rejections]
    later = replace_report(now, rejections=tuple(rejections))
    shown = fused({"RandomNormalLike": "CPUExecutionProvider"})
    (kept,) = merge_plans(before, later, shown).report.rejections
    assert kept in before.report.rejections
    assert kept.detail != "later"


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
