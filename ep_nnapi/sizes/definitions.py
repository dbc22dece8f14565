"""Operators by ONNX's own definitions, with the sizes and constants that follow from a node's."""

from __future__ import annotations

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.definitions import defining_graph
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import identical
from ep_nnapi.sizes.bind import bind_shapes
from ep_nnapi.sizes.control_flow import decide_control_flow
from ep_nnapi.sizes.inference import is_sized
from ep_nnapi.sizes.int64_ranges import mark_int32_ranges


def definition(node: GraphNode) -> Graph | None:
    """The nodes that define the node's operator, without those that compute constants or nothing.

    None if ONNX has no definition of it.
    """
    graph = defining_graph(node, decide_control_flow)
    return None if graph is None else mark_int32_ranges(_simplified(bind_shapes(graph, {})))


def _simplified(graph: Graph) -> Graph:
    """The graph without copies, constants, tensors of no elements and what no output needs."""
    ends = {v.name for v in graph.outputs}
    sources: dict[str, Value] = {}
    nodes: list[GraphNode] = []
    for given in graph.nodes:
        inputs = tuple([v and sources.get(v.name, v) for v in given.inputs])
        if given.op_type == "Concat":
            inputs = tuple([v for v in inputs if v is not None and not _is_empty(v)])
        node = replace(given, inputs=inputs)
        written = [v for v in outputs_of(node) if not _is_empty(v)]
        source = _copied(node, written[0]) if len(written) == 1 else None
        if source is not None and written[0].name not in ends:
            sources[written[0].name] = source
        elif not all(v.folded and v.name not in ends for v in written):
            nodes.append(node)
    kept: list[GraphNode] = []
    for node in reversed(nodes):
        if not ends.isdisjoint([v.name for v in outputs_of(node)]):
            kept.append(node)
            ends.update([v.name for v in node.inputs if v is not None])
    return replace(graph, nodes=tuple(reversed(kept)))


def _is_empty(value: Value) -> bool:
    return is_sized(value) and 0 in value.shape


_MAY_COPY = frozenset({"Cast", "Concat", "Expand", "Identity", "Reshape", "Slice", "Split"})
"""Operators whose output may be equal to their first input."""


def _copied(node: GraphNode, y: Value) -> Value | None:
    """The input that `y`, the node's only output, is equal to, if it is one."""
    x, *rest = node.inputs
    if node.op_type == "Where" and x is not None and x.constant is not None:
        chosen = x.constant.array
        x = rest[0] if chosen.all() else rest[1] if not chosen.any() else None
    elif (node.op_type == "Concat" and rest) or node.op_type not in _MAY_COPY:
        return None
    if x is None or x.dtype is not y.dtype or not (is_sized(x) and is_sized(y)):
        return None
    same = identical(x.shape, y.shape)
    return x if same and (node.op_type != "Slice" or _is_forward(node)) else None


def _is_forward(node: GraphNode) -> bool:
    """True for a Slice whose steps, if there are any, are constants of at least 1."""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    return steps is None or (steps.constant is not None and bool((steps.constant.array > 0).all()))
