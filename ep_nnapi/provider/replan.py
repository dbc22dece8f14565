"""Plans of one graph, one after another: ONNX Runtime asks again when it has inlined functions."""

from __future__ import annotations

from ep_nnapi.epcontext.names import SOURCE
from ep_nnapi.graph.graph import Graph
from ep_nnapi.provider.planner import Plan
from ep_nnapi.report import GraphReport


def continued(before: Plan, plan: Plan, graph: Graph) -> Plan:
    """`plan` with what is in place already since the plan `before` for the same graph.

    What was taken then is one node of ours for each cluster now; what was left is with another
    provider, unless it was inlined, and keeps the reason that it was left for.
    """
    ours = {n.name for n in graph.nodes if n.claimed_by == SOURCE}
    left = {n.name for n in graph.nodes if n.claimed_by and n.claimed_by != SOURCE}
    clusters = before.clusters if ours else ()
    taken = {name for c in clusters for name in c.report.nodes}
    reasons = {r.node: r for r in before.report.rejections if r.node in left}
    capable = before.capable & (taken | left)
    now = plan.report
    report = GraphReport(
        now.nodes - len(ours) + len(taken),
        now.capable + len(capable),
        (*(c.report for c in clusters), *now.clusters),
        tuple(reasons.get(r.node, r) for r in now.rejections if r.node not in ours),
        (*(n for n in before.report.notes if n.node in taken), *now.notes),
        now.least + len(clusters),
    )
    return Plan((*clusters, *plan.clusters), report, plan.capable | capable)
