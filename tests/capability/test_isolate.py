"""A defect that one node causes costs that node, at whichever stage of the planning it shows."""

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ep_nnapi.capability import builtin
from ep_nnapi.capability import graph as judging
from ep_nnapi.capability import node as capability
from ep_nnapi.capability.isolate import isolate_defects
from ep_nnapi.costs import cost_model as rates
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.lowering import model_builder as lowering
from ep_nnapi.nnapi.errors import OptionError, Reason
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import RuleSet, Target
from ep_nnapi.provider import planner as planning
from ep_nnapi.sizes import trial_sizes
from ep_nnapi.sizes import untrusted as declared
from tests.onnx_graph import graph_of
from tests.provider.test_planner import CHAIN, clusters, model, plan, refusals

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
def test_a_defect_costs_its_node(
    where: object, name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, where, name)
    found = plan(CHAIN, **options)
    assert clusters(found) == [("Abs_a", "Neg_b"), ("Tanh_y",)]
    (refusal,) = found.report.rejections
    assert (refusal.node, refusal.op_type) == ("Exp_c", "Exp")
    assert refusal.reason in (Reason.OP, Reason.DRIVER)
    assert refusal.detail.endswith(": injected")
    assert found.report.nodes == 4


def test_a_defect_in_the_rules_of_the_builtin_provider_costs_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_node_whose_work_cannot_be_counted_is_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_the_log_names_the_pass_that_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken(monkeypatch, judging, "propagate_quantization")
    with caplog.at_level(logging.ERROR, "ep_nnapi.capability.node"):
        plan(CHAIN)
    assert "in the pass over the graph: propagate quantization" in caplog.text
