"""Merging of successive plans: ONNX Runtime calls GetCapability again after inlining functions."""

from __future__ import annotations

from ep_nnapi.epcontext.layout import EP_SOURCE
from ep_nnapi.graph.graph import Graph
from ep_nnapi.provider.planner import PartitionedGraph
from ep_nnapi.report.report import GraphReport


def merge_plans(before: PartitionedGraph, plan: PartitionedGraph, graph: Graph) -> PartitionedGraph:
    """Returns `plan` merged with the clusters and rejections of the earlier plan `before`.

    In `graph`, each cluster of `before` is one fused node of this provider. Nodes rejected before
    are assigned to another provider, unless they were inlined; they keep their rejection reason.
    """
    ours = {n.name for n in graph.nodes if n.claimed_by == EP_SOURCE}
    left = {n.name for n in graph.nodes if n.claimed_by and n.claimed_by != EP_SOURCE}
    clusters = before.clusters if ours else ()
    taken = {name for c in clusters for name in c.report.nodes}
    reasons = {r.node: r for r in before.report.rejections if r.node in left}
    capable = before.capable & (taken | left)
    now = plan.report
    earlier = tuple(n for n in before.report.outline if n.name in taken)
    report = GraphReport(
        now.nodes - len(ours) + len(taken),
        now.capable + len(capable),
        (*(c.report for c in clusters), *now.clusters),
        tuple(reasons.get(r.node, r) for r in now.rejections if r.node not in ours),
        (*(n for n in before.report.notes if n.node in taken), *now.notes),
        now.lower_bound + len(clusters),
        now.key,
        (*earlier, *(n for n in now.outline if n.name not in ours)),
    )
    return PartitionedGraph((*clusters, *plan.clusters), report, plan.capable | capable)
