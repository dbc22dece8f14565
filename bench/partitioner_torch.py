"""PyTorch's own CapabilityBasedPartitioner on a graph, where torch is installed."""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import networkx as nx

INSTALLED = find_spec("torch") is not None


def by_torch(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """The connected parts of its partitions; nodes of the graph as calls of an fx.Graph."""
    fx, infra, support = (
        import_module(f"torch.fx{name}")
        for name in ("", ".passes.infra.partitioner", ".passes.operator_support")
    )
    graph = fx.Graph()
    calls: dict[Hashable, Any] = {}
    for node in nx.topological_sort(dag):
        read = [calls[u] for u in dag.pred[node]]
        calls[node] = graph.call_function(max, (read,))  # any function: it never runs
    graph.output([calls[node] for node in dag if not dag.succ[node]])
    nodes = {call: node for node, call in calls.items()}
    supported = support.create_op_support(lambda _, call: nodes.get(call) in capable)
    found = infra.CapabilityBasedPartitioner(
        fx.GraphModule({}, graph), supported, allows_single_node_partition=True
    ).propose_partitions()
    parts = [dag.subgraph([nodes[call] for call in part.nodes]) for part in found]
    return [list(piece) for part in parts for piece in nx.weakly_connected_components(part)]
