"""Values whose sizes no size of an input settles, but only what a node finds when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.sizes.bind import is_dynamic


def late(graph: Graph) -> Graph:
    """The graph, all of whose inputs have sizes, with `sized_by` on the values that have none.

    That is the name of the first node without whose run they are not known. A node that reads what
    has assumed sizes does not depend on that one.
    """
    found: dict[str, str] = {}
    for node in graph.nodes:
        for part in node.originals:
            unknown = [v for v in outputs_of(part) if is_dynamic([v])]
            read = (found[v.name] for v in inputs_of(part) if v.name in found and is_dynamic([v]))
            found.update(dict.fromkeys((v.name for v in unknown), next(read, part.name)))
    if not found:
        return graph
    return replace(graph, nodes=tuple(_marked(n, found) for n in graph.nodes))


def _marked(node: GraphNode, found: Mapping[str, str]) -> GraphNode:
    def sized(value: Value | None) -> Value | None:
        return value and replace(value, sized_by=found.get(value.name, ""))

    ins, outs = (tuple(map(sized, values)) for values in (node.inputs, node.outputs))
    return replace(node, inputs=ins, outputs=outs)
