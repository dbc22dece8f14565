"""Pools with ceil_mode, whose declared output may be larger than what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ep_nnapi.dag import inputs_of, outputs_of
from ep_nnapi.graph import Graph, GraphNode
from ep_nnapi.value import Dim, Value

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def certain(graph: Graph) -> Graph:
    """The graph, with sizes forgotten where ONNX Runtime computes others than it declares.

    Its kernels leave out a last window that starts in the padding, as ONNX says; its shape
    inference does not. The sizes of all that depends on such a pool are forgotten, too.
    """
    doubtful: set[str] = set()
    for node in graph.nodes:
        read = {v.name for v in inputs_of(node)} | set(node.implicit)
        if read & doubtful or _overdeclared(node):
            doubtful |= {v.name for v in outputs_of(node)}
    if not doubtful:
        return graph
    return replace(
        graph,
        nodes=tuple(_forgotten(n, doubtful) for n in graph.nodes),
        outputs=tuple(_unsized(v, doubtful) for v in graph.outputs),
    )


def _overdeclared(node: GraphNode) -> bool:
    """Whether the pool's declared output counts windows that start beyond the last element."""
    given, x, y = node.attributes, node.inputs[:1], node.outputs[:1]
    if node.domain or node.op_type not in _POOLS or given.get("ceil_mode", 0) != 1:
        return False
    if not x or not y or x[0] is None or y[0] is None or not (x[0].dims and y[0].dims):
        return False
    sizes, counts = x[0].dims[2:], y[0].dims[2:]
    strides = _numbers(given.get("strides"), (1,) * len(sizes))
    begins = _numbers(given.get("pads"), (0,) * len(sizes))
    return any(
        _beyond(*axis) for axis in zip(sizes, counts, strides, begins[: len(sizes)], strict=True)
    )


def _beyond(size: Dim, count: Dim, stride: int, begin: int) -> bool:
    if not isinstance(size, int) or not isinstance(count, int):
        return False
    return (count - 1) * stride >= size + begin


def _numbers(given: object, default: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in given) if isinstance(given, tuple) else tuple(default)


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
