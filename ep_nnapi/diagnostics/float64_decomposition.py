"""Decomposition of quantized operators into float64 ONNX nodes, without rounding.

A quantized tensor becomes a float64 tensor of unrounded quantized values. It is still clipped to
the range of its type, since quantizers often represent Relu by that clipping alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_LIMITS: Mapping[int, tuple[float, float]] = {
    TensorProto.UINT8: (0.0, 255.0),
    TensorProto.INT8: (-128.0, 127.0),
    TensorProto.UINT16: (0.0, 65535.0),
    TensorProto.INT16: (-32768.0, 32767.0),
}
QUANTIZED_TYPES = frozenset((*_LIMITS, TensorProto.INT32))
"""Types of quantized tensors and of their int32 accumulators."""


class NoDecomposition(Exception):
    """An operator or attribute without a decomposition; the message names it."""


@dataclass
class Float64Graph:
    """Builder for the float64 version of a graph.

    types     element types of the original graph's values, by name
    ranks     ranks of the original graph's values, by name
    nodes     nodes of the new graph, or of the graph inside it that is being rewritten
    tensors   constants added to the new graph
    carried   names of quantized values that are float64 in the new graph
    """

    types: dict[str, int]
    ranks: dict[str, int]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    float64_names: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def constant(self, number: object, dtype: type = np.float64) -> str:
        """Adds a constant and returns its name."""
        name = f"{len(self.tensors)}~constant"
        self.tensors.append(numpy_helper.from_array(np.asarray(number, dtype), name))
        return name

    def add(self, op_type: str, *inputs: str, to: str | None = None) -> str:
        """Adds a node and returns the name of its output: `to`, or a new name."""
        name = to or f"{next(self._numbers)}~{op_type}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name]))
        return name

    def set_attribute(self, name: str, value: object) -> None:
        """Adds an attribute to the last added node."""
        self.nodes[-1].attribute.append(helper.make_attribute(name, value))

    def cast(self, name: str, dtype: int, to: str | None = None) -> str:
        """Adds a cast to `dtype` and returns the name of its output."""
        result = self.add("Cast", name, to=to)
        self.set_attribute("to", dtype)
        return result

    def in_float64(self, name: str) -> str:
        """Returns the name of a quantized value in float64; other values are unchanged."""
        if name in self.float64_names or self.types.get(name, 0) not in QUANTIZED_TYPES:
            return name
        return self.cast(name, TensorProto.DOUBLE)

    def dequantize(self, given: Sequence[str], axis: int | None = None) -> str:
        """Adds (stored - zero point) * scale, per channel along `axis` if the scale has rank 1."""
        stored, scale, *zero = given
        scale, *zeros = (self._broadcast(n, stored, axis) for n in (scale, *(z for z in zero if z)))
        number = self.in_float64(stored)
        number = self.add("Sub", number, zeros[0]) if zeros else number
        return self.add("Mul", number, scale)

    def quantize(self, real: str, given: Sequence[str], to: str, axis: int | None = None) -> str:
        """Adds real / scale + zero point, clipped to the range of the quantized type."""
        scale, *zero = (self._broadcast(n, to, axis) for n in given if n)
        number = self.add("Div", real, scale)
        number = self.add("Add", number, zero[0]) if zero else number
        ends = [self.constant(limit) for limit in _LIMITS[self._type(to)]]
        self.float64_names.add(to)
        return self.add("Clip", number, *ends, to=to)

    def _type(self, name: str) -> int:
        found = self.types.get(name, 0)
        if found not in _LIMITS:
            raise NoDecomposition(f"quantization to type {found}")
        return found

    def _broadcast(self, name: str, of: str, axis: int | None) -> str:
        """Returns a scale or zero point in float64, reshaped to broadcast along `axis`."""
        number, rank = self.in_float64(name), self.ranks.get(name, 0)
        if rank == 0 or axis is None or axis >= self.ranks[of]:
            return number
        if rank > 1:
            raise NoDecomposition("quantization by blocks")
        shape = [1] * self.ranks[of]
        shape[axis] = -1
        return self.add("Reshape", number, self.constant(shape, np.int64))


def attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    """Returns the value of an attribute, or `default` if the node lacks it."""
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return found.get(name, default)


def _padded(node: onnx.NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * (count - len(node.input))]


def _quantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    axis = int(str(attribute(node, "axis", 1)))
    graph.quantize(node.input[0], node.input[1:], node.output[0], axis)


def _dequantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    axis = int(str(attribute(node, "axis", 1)))
    graph.add("Identity", graph.dequantize(node.input, axis), to=node.output[0])


def _dynamic_quantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    """Passes the input through unchanged, with scale 1 and zero point 0."""
    graph.add("Identity", node.input[0], to=node.output[0])
    for name, number in zip(node.output[1:], (1.0, 0.0), strict=True):
        graph.add("Identity", graph.constant(number), to=name)
    graph.float64_names |= {node.output[0], node.output[2]}


def _without_zero(graph: Float64Graph, stored: str, zero: str, axis: int) -> str:
    """Adds stored - zero point, with a zero point per tensor or per index along `axis`."""
    number = graph.in_float64(stored)
    if not zero:
        return number
    shaped = graph.in_float64(zero)
    if graph.ranks.get(zero, 0) == 1:
        shape = [1] * graph.ranks[stored]
        shape[axis] = -1
        shaped = graph.add("Reshape", shaped, graph.constant(shape, np.int64))
    return graph.add("Sub", number, shaped)


def _matmul_integer(graph: Float64Graph, node: onnx.NodeProto) -> None:
    a, b, za, zb = _padded(node, 4)
    result = _without_zero(graph, a, za, -2), _without_zero(graph, b, zb, -1)
    graph.float64_names.add(graph.add("MatMul", *result, to=node.output[0]))


def _conv_integer(graph: Float64Graph, node: onnx.NodeProto) -> None:
    x, w, zx, zw = _padded(node, 4)
    result = _without_zero(graph, x, zx, 0), _without_zero(graph, w, zw, 0)
    graph.float64_names.add(_convolution(graph, node, *result, to=node.output[0]))


def _convolution(
    graph: Float64Graph, node: onnx.NodeProto, *inputs: str, to: str | None = None
) -> str:
    if attribute(node, "channels_last", 0):
        raise NoDecomposition("QLinearConv with channels_last")
    # the CPU provider has no float64 kernel of Conv
    narrow = [graph.cast(name, TensorProto.FLOAT) for name in inputs]
    result = graph.add("Conv", *narrow)
    graph.nodes[-1].attribute.extend(a for a in node.attribute if a.name != "channels_last")
    return graph.cast(result, TensorProto.DOUBLE, to)


def _qlinear_conv(graph: Float64Graph, node: onnx.NodeProto) -> None:
    x, sx, zx, w, sw, zw, sy, zy, bias = _padded(node, 9)
    found = _convolution(
        graph, node, graph.dequantize((x, sx, zx)), graph.dequantize((w, sw, zw), 0)
    )
    if bias:
        scale = graph.add("Mul", graph.in_float64(sx), graph.in_float64(sw))
        added = graph.add("Mul", graph.in_float64(bias), scale)
        shape = [1, -1, *[1] * (graph.ranks[x] - 2)]
        found = graph.add(
            "Add", found, graph.add("Reshape", added, graph.constant(shape, np.int64))
        )
    graph.quantize(found, (sy, zy), node.output[0])


def _qlinear_matmul(graph: Float64Graph, node: onnx.NodeProto) -> None:
    a, b = node.input[:3], node.input[3:6]
    found = graph.add("MatMul", graph.dequantize(a), graph.dequantize(b, -1))
    graph.quantize(found, node.input[6:], node.output[0])


def _qgemm(graph: Float64Graph, node: onnx.NodeProto) -> None:
    a, sa, za, b, sb, zb, bias, sy, zy = _padded(node, 9)
    turned = attribute(node, "transB", 0)
    weights = graph.dequantize((b, sb, zb), 0 if turned else 1)
    weights = graph.add("Transpose", weights) if turned else weights
    found = graph.add("MatMul", graph.dequantize((a, sa, za)), weights)
    if bias:
        scale = graph.add("Mul", graph.in_float64(sa), graph.in_float64(sb))
        found = graph.add("Add", found, graph.add("Mul", graph.in_float64(bias), scale))
    found = graph.add("Mul", found, graph.constant(attribute(node, "alpha", 1.0)))
    if sy:
        graph.quantize(found, (sy, zy), node.output[0])
    else:
        graph.add("Identity", found, to=node.output[0])


def _binary(op_type: str) -> Callable[[Float64Graph, onnx.NodeProto], None]:
    def decompose(graph: Float64Graph, node: onnx.NodeProto) -> None:
        found = graph.add(
            op_type, graph.dequantize(node.input[:3]), graph.dequantize(node.input[3:6])
        )
        graph.quantize(found, node.input[6:], node.output[0])

    return decompose


def _unary(op_type: str) -> Callable[[Float64Graph, onnx.NodeProto], None]:
    def decompose(graph: Float64Graph, node: onnx.NodeProto) -> None:
        if attribute(node, "channels_last", 0):
            raise NoDecomposition(f"{node.op_type} with channels_last")
        found = graph.add(op_type, graph.dequantize(node.input[:3]))
        kept = [a for a in node.attribute if a.name not in ("channels_last", "opset")]
        graph.nodes[-1].attribute.extend(kept)
        graph.quantize(found, node.input[3:], node.output[0])

    return decompose


def _concat(graph: Float64Graph, node: onnx.NodeProto) -> None:
    rest = node.input[2:]
    parts = [graph.dequantize(rest[i : i + 3]) for i in range(0, len(rest), 3)]
    found = graph.add("Concat", *parts)
    graph.set_attribute("axis", attribute(node, "axis", 0))
    graph.quantize(found, node.input[:2], node.output[0])


def _dynamic_quantize_lstm(graph: Float64Graph, node: onnx.NodeProto) -> None:
    """An LSTM, for which there is a kernel in float32 only, of the numbers that weights stand for.

    These are [directions, input, 4 hidden], an LSTM's [directions, 4 hidden, input].
    """
    given = _padded(node, 12)
    weights = [(given[i], *given[j : j + 2]) for i, j in ((1, 8), (2, 10))]
    wide = []
    for weight in weights:
        wide.append(graph.add("Transpose", graph.dequantize(weight, axis=0)))
        graph.set_attribute("perm", (0, 2, 1))
    operands = [given[0], *wide, *given[3:8]]
    kept = {i: n for i, n in enumerate(operands) if n and i != 4}  # 4: lengths
    narrow = {i: graph.cast(n, TensorProto.FLOAT) for i, n in kept.items()}
    inputs = [narrow.get(i, n) for i, n in enumerate(operands)]
    outputs = [f"{n}~narrow" if n else "" for n in node.output]
    lstm = helper.make_node("LSTM", inputs, outputs)
    lstm.attribute.extend(node.attribute)
    graph.nodes.append(lstm)
    for name in filter(None, node.output):
        graph.cast(f"{name}~narrow", TensorProto.DOUBLE, name)


DECOMPOSITIONS: Mapping[str, Callable[[Float64Graph, onnx.NodeProto], None]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QGemm": _qgemm,
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearSoftmax": _unary("Softmax"),
    "QLinearAveragePool": _unary("AveragePool"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearConcat": _concat,
}
"""Functions that add the nodes for one quantized node, by operator type."""
