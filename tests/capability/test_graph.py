"""The check of a graph: passes, samples, exclusions, groups, root causes, its progress."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import save

import ep_nnapi
from ep_nnapi import costs as rates
from ep_nnapi.capability import builtin
from ep_nnapi.capability import graph as judging
from ep_nnapi.capability import node as capability
from ep_nnapi.capability.graph import (
    LOG_INTERVAL,
    WARN_AFTER,
    Progress,
    isolate_defects,
    judge_graph,
)
from ep_nnapi.errors import TRIED, Rejection
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.lowering import model_builder as lowering
from ep_nnapi.nnapi.errors import OptionError, Reason
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import RuleSet, Target
from ep_nnapi.provider import planner as planning
from ep_nnapi.provider.planner import Planner
from ep_nnapi.report.report import ClusterReport, Report
from ep_nnapi.sizes import trial_sizes
from ep_nnapi.sizes import untrusted as declared
from tests.cli.command import saved
from tests.faulty import compiler_of
from tests.onnx_graph import graph_of, parsed
from tests.provider.test_planner import CHAIN, clusters, model, plan, refusals


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
    made = parsed("(float[n,7] x) => (float[1,13] y) { y = Reshape (x, to) }", to=[1, 13])
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


def refused(model: Path, **options: object) -> dict[str, Rejection]:
    return {r.node: r for r in ep_nnapi.check(model, **options).rejections}


@pytest.fixture
def doubles(tmp_path: Path) -> Path:
    """A chain of three nodes on float64, between casts."""
    text = """[to] a = Cast <to = 11> (x) [first] b = Neg (a) [second] c = Neg (b)
        [third] d = Sqrt (c) [from] y = Cast <to = 1> (d)"""
    return saved(tmp_path, text)


def test_what_reads_a_refused_tensor_follows(doubles: Path):
    """All of the chain from its first node on, for its type is refused at each."""
    found = refused(doubles)
    assert {r.reason for r in found.values()} == {Reason.DTYPE}
    first, *rest = found.values()
    assert first.caused_by == ""
    assert {r.caused_by for r in rest} == {first.node}


def test_another_reason_does_not_follow(tmp_path: Path):
    """Its input is computed by a refused node, but what is refused is its own operator."""
    path = saved(tmp_path, "[one] a = Neg (x) [two] y = RandomNormalLike (a)")
    found = refused(path, exclude="one")
    reasons = {name: r.reason for name, r in found.items()}
    assert reasons == {"one": Reason.EXCLUDED, "two": Reason.OP}
    assert found["two"].caused_by == ""


def test_members_of_a_group_follow_from_its_operator(tmp_path: Path):
    text = """(float[2,3] x) => (float[2,3] y) {
        [q1] a = QuantizeLinear (x, s, z) [d1] b = DequantizeLinear (a, s, z) [relu] c = Relu (b)
        [q2] e = QuantizeLinear (c, s, z) [d2] y = DequantizeLinear (e, s, z) }"""
    save(parsed(text, 21, s=np.float32(0.1), z=np.int8(0)), tmp_path / "m.onnx")
    found = refused(tmp_path / "m.onnx", exclude="relu")
    assert found
    members = [r for r in found.values() if "in the QDQ group of" in r.detail]
    assert all(r.caused_by for r in members)


def test_a_kind_is_the_detail_without_names(doubles: Path):
    found = refused(doubles)
    assert found["first"].kind == found["second"].kind
    assert "*" in found["first"].kind.split()
    assert found["first"].detail != found["second"].detail


def test_rules_that_would_take_the_node_are_named(tmp_path: Path):
    path = saved(tmp_path, "[both] a = Erf (x) [neither] y = RandomNormalLike (a)")
    found = refused(path, target="builtin-nnapi")
    assert {name: r.accepted_by for name, r in found.items()} == {"both": "ep-nnapi", "neither": ""}
    assert not [r for r in refused(path).values() if r.accepted_by]


def test_a_report_is_shown_in_a_screenful():
    cluster = ClusterReport(("a" * 300, "b"), ("x",), ("y",), 8, "d", ("Conv", "Relu"))
    left = tuple(Rejection(f"n{i}", f"Op{i}", Reason.OP, "no") for i in range(500))
    shown = repr(Report(8, "ep-nnapi", 1500, 1000, (cluster,) * 500, left))
    assert len(shown.splitlines()) <= 24
    assert max(map(len, shown.splitlines())) <= 170
    assert "NNAPI takes 1000 of 1500 nodes in 500 clusters at feature level 8" in shown
    assert "and 490 more clusters" in shown


def test_a_small_report_is_shown_whole():
    cluster = ClusterReport(("c", "r", "d"), ("x",), ("y",), 8, "d", ("Conv", "Relu", "Conv"))
    left = (Rejection("n", "Mish", Reason.OP, "no"),)
    assert repr(Report(8, "ep-nnapi", 4, 3, (cluster,), left)) == (
        "<Report: NNAPI takes 3 of 4 nodes in 1 cluster at feature level 8, target ep-nnapi\n"
        "  cluster 0: 2 Conv, 1 Relu (c to d)\n"
        "  left to the CPU for OP: 1 Mish>"
    )


def ticking(step: float) -> Callable[[], float]:
    """A clock by which `step` seconds pass from one look to the next."""
    moments: Iterator[float] = itertools.count(0.0, step)
    return lambda: next(moments)


def chain(nodes: int, kinds: str = "Neg") -> object:
    """A chain of nodes, of these kinds in turn."""
    names = ["x", *(f"v{i}" for i in range(1, nodes)), "y"]
    turns = itertools.cycle(kinds.split())
    lines = [f"{next(turns)} {a} -> {b}" for a, b in itertools.pairwise(names)]
    return graph_of(model(*lines))


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    found = [r for r in caplog.records if r.name == "ep_nnapi.capability.graph"]
    return [r.getMessage() for r in found if r.levelno == level]


def logged_plan(graph: object, step: float, caplog: pytest.LogCaptureFixture) -> None:
    compiler = compiler_of()
    with caplog.at_level(logging.INFO, "ep_nnapi.capability.graph"):
        Planner(compiler, parse({"exclude": "Tanh"}), clock=ticking(step)).plan(graph)


def test_judging_is_logged_with_counts(caplog: pytest.LogCaptureFixture) -> None:
    """A second for each node: a line every three."""
    logged_plan(chain(8), 1.0, caplog)
    assert said(caplog, logging.INFO) == [
        "planning: 2 of 8 nodes checked",
        "planning: 5 of 8 nodes checked",
        "planning: 0 of 1 clusters compiled",
    ]
    assert said(caplog, logging.WARNING) == []


def test_compiling_is_logged_with_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Ten clusters, as every other node stays on the CPU."""
    logged_plan(chain(20, "Neg Tanh"), 1.0, caplog)
    lines = [line for line in said(caplog, logging.INFO) if line.endswith("clusters compiled")]
    assert lines == [f"planning: {i} of 10 clusters compiled" for i in (0, 3, 6, 9)]


def test_a_long_planning_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    logged_plan(chain(50), 1.0, caplog)
    expected = ["planning has taken 10 s so far: 9 of 50 nodes checked; Ctrl-C ends it"]
    assert said(caplog, logging.WARNING) == expected


def test_a_short_planning_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    logged_plan(chain(20, "Neg Tanh"), 0.0, caplog)
    assert said(caplog, logging.INFO) == said(caplog, logging.WARNING) == []


@pytest.mark.parametrize(("after", "lines"), [(LOG_INTERVAL - 0.01, 0), (LOG_INTERVAL, 1)])
def test_the_first_line(after: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    moments = iter((0.0, after))
    progress = Progress(lambda: next(moments))
    with caplog.at_level(logging.INFO, "ep_nnapi.capability.graph"):
        progress("nodes checked", 1, 2)
    assert len(said(caplog, logging.INFO)) == lines


@pytest.mark.parametrize(("after", "lines"), [(WARN_AFTER - 0.01, 0), (WARN_AFTER, 1)])
def test_the_warning(after: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    moments = iter((0.0, after, 2 * after))
    progress = Progress(lambda: next(moments))
    progress("nodes checked", 1, 3)
    assert len(said(caplog, logging.WARNING)) == lines
    progress("nodes checked", 2, 3)
    assert len(said(caplog, logging.WARNING)) == 1


STAGES = {
    "sizes that are only declared": (declared, "is_only_declared", {}),
    "declared sizes": (judging, "drop_untrusted_shapes", {}),
    "quantization": (judging, "propagate_quantization", {}),
    "ranges of numbers": (judging, "mark_int32_ranges", {}),
    "lowering and matching": (capability, "_lower_operator", {}),
    "shapes of a lowering": (capability, "check_call", {}),
    "fusion": (lowering, "fuse_activations", {}),
    "layout": (lowering, "assign_layouts", {}),
    "the model for the CPU provider": (planning, "model_of", {"fallback": "cpu"}),
    "asking the device": (HostRuntime, "supported", {}),
    "compiling": (HostRuntime, "compile", {}),
    "preparing": (ReferenceDevice, "prepare", {}),
}


def concerns(given: object, name: str) -> bool:
    """True if the arguments of a stage contain the node of that name."""
    if isinstance(given, GraphNode):
        return given.name == name and given.op_type != "Hidden"
    if isinstance(given, Graph):
        return concerns(given.nodes, name)
    if isinstance(given, list | tuple):
        return any(concerns(g, name) for g in given)
    if hasattr(given, "operations"):
        return any(name in operation.origin for operation in given.operations)
    if hasattr(given, "model"):
        return concerns(given.model, name)
    return name in getattr(given, "origin", ())


def broken(
    patch: pytest.MonkeyPatch, where: object, name: str, culprits: Iterable[str] = ("Exp_c",)
) -> None:
    """Makes the stage raise for the culprits."""
    works: Callable[..., object] = getattr(where, name)

    def stage(*given: object, **more: object) -> object:
        if any(concerns(list(given), culprit) for culprit in culprits):
            raise ValueError("injected")
        return works(*given, **more)

    patch.setattr(where, name, stage)


@pytest.mark.parametrize(("where", "name", "options"), STAGES.values(), ids=STAGES)
def test_a_defect_costs_its_node(where: object, name: str, options: dict[str, str], monkeypatch):
    broken(monkeypatch, where, name)
    found = plan(CHAIN, **options)
    assert clusters(found) == [("Abs_a", "Neg_b"), ("Tanh_y",)]
    (refusal,) = found.report.rejections
    assert (refusal.node, refusal.op_type) == ("Exp_c", "Exp")
    assert refusal.reason in (Reason.OP, Reason.DRIVER)
    assert refusal.detail.endswith(": injected")
    assert found.report.nodes == 4


def test_a_defect_in_the_rules_of_the_builtin_provider_costs_its_node(monkeypatch):
    broken(monkeypatch, builtin, "builtin_rejection")
    target = replace(Target(8), rules=RuleSet.BUILTIN)
    found = judging.judge_graph(graph_of(CHAIN), target, parse({}))
    (refusal,) = found.rejections()
    assert (refusal.node, refusal.reason) == ("Exp_c", Reason.OP)
    assert refusal.detail.endswith("a defect of ep-nnapi: injected")


def test_a_defect_of_symbolic_sizes_costs_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, trial_sizes, "sample_graphs")
    proto = model("Abs x -> a", "Exp a -> c", "Tanh x -> y", outputs="c y")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    found = plan(proto)
    assert clusters(found) == [("Abs_a",), ("Tanh_y",)]
    assert set(refusals(found)) == {"Exp_c"}


def test_a_node_whose_work_cannot_be_counted_is_taken(monkeypatch, caplog):
    """Estimates decide nothing where everything is taken, and one among them little."""
    broken(monkeypatch, rates, "work")
    assert len(clusters(plan(CHAIN))) == 1
    with caplog.at_level(logging.ERROR, "ep_nnapi.costs"):
        plan(CHAIN, partitioning="worth_it")
    assert {r.getMessage() for r in caplog.records} == {"the work of Exp_c (Exp) cannot be counted"}


def test_several_defects_cost_each_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, judging, "propagate_quantization", ("Abs_a", "Exp_c"))
    found = plan(CHAIN)
    assert clusters(found) == [("Neg_b",), ("Tanh_y",)]
    assert set(refusals(found)) == {"Abs_a", "Exp_c"}


def test_a_defect_of_every_node_leaves_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few searches the rest is not searched."""
    names = ["x", *(f"v{i}" for i in range(99)), "y"]
    proto = model(*(f"Neg {a} -> {b}" for a, b in itertools.pairwise(names)))
    nodes = {node.name for node in proto.graph.node}
    seen: list[int] = []
    works = judging.propagate_quantization

    def counted(graph: Graph) -> Graph:
        seen.append(len(graph.nodes))
        if any(concerns(graph, name) for name in nodes):
            raise ValueError("injected")
        return works(graph)

    monkeypatch.setattr(judging, "propagate_quantization", counted)
    found = plan(proto)
    assert clusters(found) == []
    assert set(refusals(found)) == nodes
    assert len(seen) <= 9 * 8 + 2  # nine searches by halving 100 nodes, and a last step


def test_an_option_that_does_not_fit_is_the_users() -> None:
    def step(graph: Graph) -> Graph:
        raise OptionError("no input z")

    with pytest.raises(OptionError, match="no input z"):
        isolate_defects(graph_of(CHAIN), step)


def test_what_fails_without_any_node_is_raised() -> None:
    def step(graph: Graph) -> Graph:
        raise ValueError("always")

    with pytest.raises(ValueError, match="always"):
        isolate_defects(graph_of(CHAIN), step)


def test_the_log_names_the_pass_that_failed(monkeypatch, caplog):
    broken(monkeypatch, judging, "propagate_quantization")
    with caplog.at_level(logging.ERROR, "ep_nnapi.capability.node"):
        plan(CHAIN)
    assert "in the pass over the graph: propagate quantization" in caplog.text
