"""Work estimates of nodes from their shapes: multiply-accumulates, bytes and operator family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.immutable import frozen

Shape: TypeAlias = tuple[int, ...]


class CostClass(StrEnum):
    """Operator families with about the same time per multiply-accumulate.

    quantized   convolutions and matrix products of 8-bit tensors
    function    element-wise functions such as exp: work is counted in elements
    other       element-wise arithmetic and data movement: work is counted in elements
    """

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    PRODUCT = "product"
    RECURRENT = "recurrent"
    QUANTIZED = "quantized"
    FUNCTION = "function"
    OTHER = "other"


@frozen
class Work:
    """Multiply-accumulates, and bytes read and written (including weights)."""

    macs: int = 0
    bytes: int = 0


def work(node: GraphNode) -> Work:
    """Returns the work of a node; unknown dimensions count as 1."""
    weights = sum(bytes_of(v) for v in node.inputs if v is not None and v.constant is not None)
    moved = sum(bytes_of(v) for v in (*inputs_of(node), *outputs_of(node)))
    shapes = [_shape(v) for v in node.inputs]
    out = _shape(next(iter(outputs_of(node)), None))
    _, count = MACS.get(node.op_type, (CostClass.OTHER, None))
    return Work(count(shapes, out) if count and len(shapes) > 1 else prod(out), moved + weights)


def cost_class(node: GraphNode) -> CostClass:
    """Returns the family of a node, from its operator, data types and convolution groups."""
    if node.op_type in FUNCTIONS:
        return CostClass.FUNCTION
    family, _ = MACS.get(node.op_type, (CostClass.OTHER, None))
    if family in (CostClass.OTHER, CostClass.RECURRENT):
        return family
    if node.quantized or node.op_type.startswith("QLinear"):
        return CostClass.QUANTIZED
    filters = _shape(node.inputs[1]) if len(node.inputs) > 1 else ()
    depthwise = family is CostClass.CONVOLUTION and node.attributes.get("group", 1) != 1
    return CostClass.DEPTHWISE if depthwise and filters[1:2] == (1,) else family


def _shape(value: Value | None) -> Shape:
    if value is None or value.dims is None:
        return ()
    return tuple(d if isinstance(d, int) else 1 for d in value.dims)


def _convolution(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element one filter [C / group, kH, kW]."""
    return prod(out) * prod(inputs[1][1:])


def _transposed(inputs: list[Shape], out: Shape) -> int:
    """Counts for each input element one filter [O / group, kH, kW]."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def _product(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element the size of the inner dimension."""
    return prod(out) * (prod(inputs[0]) // max(1, prod(inputs[0][:-1])))


def _recurrent(inputs: list[Shape], out: Shape) -> int:
    """Counts for each step and batch entry the input weights and the recurrent weights."""
    steps = prod(inputs[0][:2])
    return steps * sum(prod(s) for s in inputs[1:3])


MACS: Mapping[str, tuple[CostClass, Callable[[list[Shape], Shape], int]]] = {
    "Conv": (CostClass.CONVOLUTION, _convolution),
    "FusedConv": (CostClass.CONVOLUTION, _convolution),
    "QLinearConv": (CostClass.CONVOLUTION, _convolution),
    "ConvTranspose": (CostClass.CONVOLUTION, _transposed),
    "Gemm": (CostClass.PRODUCT, _product),
    "MatMul": (CostClass.PRODUCT, _product),
    "FusedMatMul": (CostClass.PRODUCT, _product),
    "LSTM": (CostClass.RECURRENT, _recurrent),
    "GRU": (CostClass.RECURRENT, _recurrent),
    "RNN": (CostClass.RECURRENT, _recurrent),
}
"""Counting functions by operator; for all others the work is the number of output elements."""

FUNCTIONS = frozenset(
    (
        "Celu",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "FastGelu",
        "Gelu",
        "HardSwish",
        "InstanceNormalization",
        "LayerNormalization",
        "Log",
        "LogSoftmax",
        "Mish",
        "Pow",
        "QuickGelu",
        "Selu",
        "Sigmoid",
        "Sin",
        "Softmax",
        "Softplus",
        "Sqrt",
        "Tanh",
    )
)
"""Operators that compute a function of each element, mostly with exp."""
