"""Sizes that a model declares, or ONNX Runtime infers, and that are not what is computed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.sizes.ceil_mode import overdeclared
from ep_nnapi.sizes.inference import contradicts, is_believed, only_declared


def certain(graph: Graph) -> Graph:
    """The graph, with sizes forgotten where others than the declared ones are computed.

    ONNX Runtime's shape inference counts windows of pools that its kernels leave out, and believes
    the model's author where it infers nothing, as where data decides. The sizes of all that depends
    on such a node are forgotten, too.
    """
    doubtful: set[str] = set()
    for node in graph.nodes:
        read = {v.name for v in inputs_of(node)} | set(node.implicit)
        if read & doubtful or any(
            doubt(node) for doubt in (overdeclared, contradicts, only_declared)
        ):
            doubtful |= {v.name for v in outputs_of(node)}
    if not doubtful:
        return graph
    return replace(
        graph,
        nodes=tuple(_forgotten(n, doubtful) for n in graph.nodes),
        outputs=tuple(_unsized(v, doubtful) for v in graph.outputs),
    )


def believed(graph: Graph) -> frozenset[str]:
    """The tensors whose sizes rest on what the model's author declares, and nothing can check.

    They come from what holds inner graphs, reads what is no tensor or is of an unknown domain; the
    inputs of an inner graph are such as well.
    """
    names = {v.name for v in graph.inputs} if graph.key else set()
    for node in graph.nodes:
        read = {v.name for v in inputs_of(node)} | set(node.implicit)
        if read & names or any(is_believed(part) for part in node.originals):
            names |= {v.name for v in outputs_of(node)}
    return frozenset(names)


def _forgotten(node: GraphNode, doubtful: Collection[str]) -> GraphNode:
    return replace(
        node,
        inputs=tuple(v and _unsized(v, doubtful) for v in node.inputs),
        outputs=tuple(v and _unsized(v, doubtful) for v in node.outputs),
    )


def _unsized(value: Value, doubtful: Collection[str]) -> Value:
    if value.name not in doubtful or value.dims is None:
        return value
    return replace(value, dims=(None,) * len(value.dims))
