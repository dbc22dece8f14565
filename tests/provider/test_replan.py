"""Plans of one graph before and after ONNX Runtime has inlined its functions."""

from __future__ import annotations

from dataclasses import replace

from ep_nnapi.epcontext.names import EP_SOURCE
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.provider.replan import merge_plans
from tests.onnx_graph import graph_of
from tests.provider.test_planner import clusters, model, plan, refusals

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
