"""Outline of a graph for drawings: its nodes with values, types and estimated times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ep_nnapi.costs import CostModel
from ep_nnapi.graph.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.report.report import ClusterReport, NodeReport


def outline_of(
    graph: Graph, known: Mapping[int, GraphNode], model: CostModel
) -> tuple[NodeReport, ...]:
    """Returns the nodes of `graph` in their order.

    known   nodes and QDQ groups by id, with the shapes that are known; a group's time is that of
            the node whose id it has
    """
    types = {
        v.name: type_of(v) for g in known.values() for n in g.originals for v in outputs_of(n)
    } | {v.name: type_of(v) for g in known.values() for v in outputs_of(g)}
    return tuple(_node(node, known.get(node.id), types, model) for node in graph.nodes)


def _node(
    node: GraphNode, known: GraphNode | None, types: Mapping[str, str], model: CostModel
) -> NodeReport:
    outputs = tuple(v.name for v in outputs_of(node))
    return NodeReport(
        node.name,
        node.op_type,
        (*(v.name for v in inputs_of(node) if v.constant is None), *node.implicit),
        outputs,
        tuple(types.get(name, "") for name in outputs),
        0.0 if known is None else model.cpu.time(known),
        0.0 if known is None else model.nnapi.time(known),
    )


def type_of(value: Value) -> str:
    """Returns data type and shape: `float32 [1, batch, ?]`; the data type for an unknown rank."""
    if value.dims is None:
        return value.dtype.name.lower()
    dims = ", ".join("?" if d is None else str(d) for d in value.dims)
    return f"{value.dtype.name.lower()} [{dims}]"


def report_of(
    nodes: Sequence[GraphNode], inputs: Sequence[Value], outputs: Sequence[Value], device: str
) -> ClusterReport:
    """Returns the report of a cluster of these ONNX nodes, with its inputs and outputs."""
    return ClusterReport(
        tuple(n.name for n in nodes),
        tuple(v.name for v in inputs),
        tuple(v.name for v in outputs),
        sum(bytes_of(v) for v in (*inputs, *outputs)),
        device,
        tuple(n.op_type for n in nodes),
    )


def with_times(
    report: ClusterReport, nodes: Iterable[GraphNode], model: CostModel
) -> ClusterReport:
    """Returns the report of a cluster with the estimated times of its nodes and its border."""
    members = list(nodes)
    border = model.per_cluster + report.boundary_bytes * model.per_byte
    return replace(
        report,
        cpu_us=sum(map(model.cpu.time, members)),
        nnapi_us=border + sum(map(model.nnapi.time, members)),
    )
