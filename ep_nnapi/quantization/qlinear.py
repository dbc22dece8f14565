"""Conversion of QLinear operators to QDQ groups of the equivalent float operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.immutable import frozen

Triple: TypeAlias = tuple[int, int, int]
"""Input indices of a tensor, its scale and its zero point."""


@frozen
class FloatEquivalent:
    """The float operator that a QLinear operator is equivalent to, and its input indices.

    op_type, since   of the float operator
    inputs   quantized inputs, in the float operator's order; `repeats`: the last one is variadic
    output   input indices of the output's scale and zero point
    unquantized   index in the float operator to index in the QLinear operator
    axes     by input index, the axis of per-axis scales
    bias     input index of an INT32 bias, whose scale is the product of the input scales
    """

    op_type: str
    since: int
    inputs: tuple[Triple, ...]
    output: tuple[int, int]
    repeats: bool = False
    unquantized: Mapping[int, int] | None = None
    axes: Mapping[int, int] | None = None
    bias: int | None = None

    def axis(self, node: GraphNode, tensor: int) -> int | None:
        """The axis of per-axis scales of that input, or None."""
        found = (self.axes or {}).get(tensor)
        return 0 if found is not None and _integer(node, "transB", 0) else found

    def triples(self, node: GraphNode) -> Iterator[Triple]:
        """Yields the input indices of all quantized inputs of the node."""
        yield from self.inputs
        if self.repeats:
            first = self.inputs[-1][0] + 3
            yield from ((i, i + 1, i + 2) for i in range(first, len(node.inputs), 3))


_UNARY: tuple[Triple, ...] = ((0, 1, 2),)
_BINARY: tuple[Triple, ...] = ((0, 1, 2), (3, 4, 5))
FLOAT_EQUIVALENTS: Mapping[str, FloatEquivalent] = {
    "QLinearConv": FloatEquivalent("Conv", 11, _BINARY, (6, 7), axes={3: 0}, bias=8),
    "QGemm": FloatEquivalent("Gemm", 13, _BINARY, (7, 8), axes={3: 1}, bias=6),
    "QLinearMatMul": FloatEquivalent("MatMul", 13, _BINARY, (6, 7), axes={3: -1}),
    "QLinearAdd": FloatEquivalent("Add", 14, _BINARY, (6, 7)),
    "QLinearMul": FloatEquivalent("Mul", 14, _BINARY, (6, 7)),
    "QLinearWhere": FloatEquivalent(
        "Where", 16, ((1, 2, 3), (4, 5, 6)), (7, 8), unquantized={0: 0}
    ),
    "QLinearConcat": FloatEquivalent("Concat", 13, ((2, 3, 4),), (0, 1), repeats=True),
    "QLinearSoftmax": FloatEquivalent("Softmax", 13, _UNARY, (3, 4)),
    "QLinearSigmoid": FloatEquivalent("Sigmoid", 13, _UNARY, (3, 4)),
    "QLinearLeakyRelu": FloatEquivalent("LeakyRelu", 16, _UNARY, (3, 4)),
    "QLinearAveragePool": FloatEquivalent("AveragePool", 19, _UNARY, (3, 4)),
    "QLinearGlobalAveragePool": FloatEquivalent("GlobalAveragePool", 1, _UNARY, (3, 4)),
}
"""Source: ONNX QLinearConv-10, QLinearMatMul-10, -21; com.microsoft schemas of ONNX Runtime."""


def as_group(node: GraphNode) -> GraphNode:
    """Returns the node as a QDQ group of the float operator; unchanged if that is not possible."""
    equivalent = FLOAT_EQUIVALENTS.get(node.op_type)
    if equivalent is None or _integer(node, "channels_last", 0):
        return node
    found = [node.inputs[tensor] for tensor, _, _ in equivalent.triples(node)]
    values = (*found, *node.outputs)
    if any(v is None or (v.quantization is None and v.dtype is not DType.FLOAT) for v in values):
        return node
    for position, source in (equivalent.unquantized or {}).items():
        found.insert(position, node.inputs[source])
    if equivalent.bias is not None and len(node.inputs) > equivalent.bias:
        bias = _bias(node, node.inputs[equivalent.bias])
        if bias is not None and bias.quantization is None:
            return node
        found.append(bias)
    # QLinearSoftmax has the opset of its Softmax as an attribute
    since = min(equivalent.since, _integer(node, "opset", equivalent.since))
    return replace(
        node, op_type=equivalent.op_type, domain="", since=since, inputs=tuple(found), parts=(node,)
    )


def _integer(node: GraphNode, name: str, default: int) -> int:
    given = node.attributes.get(name, default)
    return given if isinstance(given, int) else default


def _bias(node: GraphNode, given: Value | None) -> Value | None:
    """The bias with the products of the scales, one along its last axis where these are several.

    It has no quantization where it has another size than there are scales.
    """
    x, w = node.inputs[0], node.inputs[3]
    if given is None or x is None or w is None or given.dtype is not DType.INT32:
        return given
    if x.quantization is None or w.quantization is None:
        return given
    alpha = node.attributes.get("alpha", 1.0)
    step = np.float32(x.quantization.scale[0] * (alpha if isinstance(alpha, float) else 1.0))
    product = np.array(w.quantization.scale, np.float32) * step
    scales = tuple(float(s) for s in product)
    axis = None if len(scales) == 1 else len(given.dims or ()) - 1
    if axis is not None and (not given.dims or given.dims[axis] != len(scales)):
        return replace(given, quantization=None)
    return replace(given, quantization=Quantization(scales, (0,) * len(scales), axis))
