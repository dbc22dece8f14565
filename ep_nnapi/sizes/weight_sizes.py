"""Symbolic dimensions whose sizes the weights of a model determine.

Models exported with every dimension symbolic have a symbol for the number of features too, which
must be that of the weights: no run with another one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Dim, Value

Sized: TypeAlias = tuple[int, int, int]
"""Position of an input, one of its axes, and the size that the weights have there."""


def sizes_by_weights(graph: Graph) -> dict[str, int]:
    """Returns the sizes of such dimensions by symbol; of several for one, the first one's."""
    found: dict[str, int] = {}
    for node in (part for n in graph.nodes for part in n.originals):
        sizes = None if node.domain else _OPERATORS.get(node.op_type)
        for index, axis, size in () if sizes is None else sizes(node):
            dim = _dim(node, index, axis)
            if isinstance(dim, str) and size > 0:
                found.setdefault(dim, size)
    return found


def _matmul(node: GraphNode) -> Iterator[Sized]:
    """Source: ONNX MatMul-1 to MatMul-13."""
    match _weights(node, 1):
        case [size] | [*_, size, _]:
            yield 0, -1, size


def _gemm(node: GraphNode) -> Iterator[Sized]:
    """Source: ONNX Gemm-6 to Gemm-13."""
    match _weights(node, 1):
        case [*shape] if len(shape) == 2:
            axis = 0 if node.attributes.get("transA") else 1
            yield 0, axis, shape[1 if node.attributes.get("transB") else 0]


def _conv(node: GraphNode) -> Iterator[Sized]:
    """Source: ONNX Conv-1 to Conv-22."""
    groups = node.attributes.get("group", 1)
    match _weights(node, 1):
        case [_, channels, _, *_] if isinstance(groups, int):
            yield 0, 1, channels * groups


def _recurrent(node: GraphNode) -> Iterator[Sized]:
    """Features and states; source: ONNX RNN-7 to RNN-22, GRU and LSTM likewise."""
    match _weights(node, 1):
        case [_, _, size]:
            yield 0, 2, size
    match _weights(node, 2):
        case [_, _, units]:
            yield from ((state, 2, units) for state in (5, 6))


_OPERATORS: Mapping[str, Callable[[GraphNode], Iterator[Sized]]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}


def _input(node: GraphNode, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _weights(node: GraphNode, index: int) -> tuple[int, ...]:
    """Returns the shape of a constant input; () where there is none."""
    value = _input(node, index)
    return () if value is None or value.constant is None else value.constant.shape


def _dim(node: GraphNode, index: int, axis: int) -> Dim:
    """Returns a dimension of an input; None where it has none."""
    value = _input(node, index)
    dims = () if value is None or value.dims is None else value.dims
    return dims[axis] if -len(dims) <= axis < len(dims) else None
