"""Detection of values with data-dependent shapes, which are known only after a node has run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.sizes.inference import is_sized


def mark_data_dependent(graph: Graph) -> Graph:
    """Sets `shape_producer` on values without static shapes, in a graph with static input shapes.

    It is the name of the first node that must run before the shape is known. A node that reads a
    tensor with an assumed shape does not depend on the node that computes it.
    """
    found: dict[str, str] = {}
    for node in graph.nodes:
        for part in node.originals:
            unknown = [v.name for v in outputs_of(part) if not is_sized(v)]
            if unknown:
                read = (v for v in inputs_of(part) if v.name in found and not is_sized(v))
                source = next((found[v.name] for v in read), part.name)
                found.update(dict.fromkeys(unknown, source))
    if not found:
        return graph
    return replace(graph, nodes=tuple(_mark_node(n, found) for n in graph.nodes))


def _mark_node(node: GraphNode, found: Mapping[str, str]) -> GraphNode:
    def mark(value: Value | None) -> Value | None:
        return value and replace(value, shape_producer=found.get(value.name, ""))

    ins, outs = (tuple(map(mark, values)) for values in (node.inputs, node.outputs))
    return replace(node, inputs=ins, outputs=outs)
