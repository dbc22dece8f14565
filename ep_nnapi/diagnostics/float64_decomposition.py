"""Decomposition of quantized operators into float64 ONNX nodes, without rounding.

A quantized tensor becomes a float64 tensor of unrounded quantized values. It is still clipped to
the range of its type, since quantizers often represent Relu by that clipping alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.quantization.qdq_groups import FLOAT_EQUIVALENTS

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

    types           element types of the original graph's values, by name
    ranks           ranks of the original graph's values, by name
    nodes           nodes of the new graph, or of the graph inside it that is being rewritten
    tensors         constants added to the new graph
    float64_names   names of quantized values that are float64 in the new graph
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

    def add(
        self, op_type: str, *inputs: str, to: str = "", attributes: Mapping[str, object] = {}
    ) -> str:
        """Adds a node and returns the name of its output: `to`, or a new name."""
        name = to or f"{next(self._numbers)}~{op_type}"
        node = helper.make_node(op_type, list(inputs), [name])
        node.attribute.extend(helper.make_attribute(n, value) for n, value in attributes.items())
        self.nodes.append(node)
        return name

    def add_in_float32(
        self, node: onnx.NodeProto, inputs: Iterable[int], outputs: Iterable[int]
    ) -> None:
        """Adds a node in float32, whose inputs and outputs at these positions are cast."""
        for i in inputs:
            node.input[i] = self.cast(node.input[i], TensorProto.FLOAT)
        for given in (a for a in node.attribute if a.name == "accuracy_level"):
            given.i = 1  # float32: MatMulNBits may round its first input to 8 bits at others
        wide = {i: node.output[i] for i in outputs}
        for i, name in wide.items():
            node.output[i] = f"{name}~narrow"
        self.nodes.append(node)
        for name in wide.values():
            self.cast(f"{name}~narrow", TensorProto.DOUBLE, name)

    def cast(self, name: str, dtype: int, to: str = "") -> str:
        """Adds a cast to `dtype` and returns the name of its output."""
        return self.add("Cast", name, to=to, attributes={"to": dtype})

    def in_float64(self, name: str) -> str:
        """Returns the name of a quantized value in float64; other values are unchanged."""
        if name in self.float64_names or self.types.get(name, 0) not in QUANTIZED_TYPES:
            return name
        return self.cast(name, TensorProto.DOUBLE)

    def dequantize(self, given: Sequence[str], axis: int | None = None) -> str:
        """Adds (stored - zero point) * scale, along `axis` those of rank 1.

        given   names; that of the scale may be "", that of the zero point be missing
        """
        stored, scale, zero = (*given, "")[:3]
        number = self.in_float64(stored)
        for op_type, name in (("Sub", zero), ("Mul", scale)):
            if name:
                number = self.add(op_type, number, self._broadcast(name, stored, axis))
        return number

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
        if rank != 1 or axis is None or axis >= self.ranks[of]:
            return number
        shape = [1] * self.ranks[of]
        shape[axis] = -1
        return self.add("Reshape", number, self.constant(shape, np.int64))


def attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    """Returns the value of an attribute, or `default` if the node lacks it."""
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return found.get(name, default)


def _padded(node: onnx.NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * (count - len(node.input))]


def _axis(node: onnx.NodeProto) -> int:
    if attribute(node, "block_size", 0):
        raise NoDecomposition("quantization by blocks")
    return int(str(attribute(node, "axis", 1)))


def _quantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    graph.quantize(node.input[0], node.input[1:], node.output[0], _axis(node))


def _dequantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    graph.add("Identity", graph.dequantize(node.input, _axis(node)), to=node.output[0])


def _dynamic_quantize(graph: Float64Graph, node: onnx.NodeProto) -> None:
    """Passes the input through unchanged, with scale 1 and zero point 0."""
    graph.add("Identity", node.input[0], to=node.output[0])
    for name, number in zip(node.output[1:], (1.0, 0.0), strict=True):
        graph.add("Identity", graph.constant(number), to=name)
    graph.float64_names |= {node.output[0], node.output[2]}


def _add_float(
    graph: Float64Graph, node: onnx.NodeProto, op_type: str, inputs: Sequence[str], to: str
) -> None:
    """Adds the float operator with the attributes of a quantized one."""
    made = helper.make_node(op_type, inputs, [to])
    made.attribute.extend(a for a in node.attribute if a.name not in ("channels_last", "opset"))
    # the CPU provider has no float64 kernel of Conv
    graph.add_in_float32(made, *((range(len(inputs)), [0]) if op_type == "Conv" else ((), ())))


def _integer(op_type: str, axes: tuple[int, int]) -> Callable[[Float64Graph, onnx.NodeProto], None]:
    """The decomposition of two tensors that have no scales; `axes`: those of zero points."""

    def decompose(graph: Float64Graph, node: onnx.NodeProto) -> None:
        stored, zeros = node.input[:2], _padded(node, 4)[2:]
        inputs = [
            graph.dequantize((s, "", z), a) for s, z, a in zip(stored, zeros, axes, strict=True)
        ]
        _add_float(graph, node, op_type, inputs, node.output[0])
        graph.float64_names.add(node.output[0])

    return decompose


def _equivalent(graph: Float64Graph, node: onnx.NodeProto) -> None:
    """The float operator of real numbers, and the quantization of what it computes."""
    if attribute(node, "channels_last", 0):
        raise NoDecomposition(f"{node.op_type} with channels_last")
    known, given = FLOAT_EQUIVALENTS[node.op_type], _padded(node, 9)
    axes = dict.fromkeys(known.axes or {}, 0) if attribute(node, "transB", 0) else known.axes or {}
    inputs = [
        graph.dequantize([given[i] for i in places], axes.get(places[0]))
        for places in known.triples(len(node.input))
    ]
    for position, source in (known.unquantized or {}).items():
        inputs.insert(position, given[source])
    if known.bias is not None and given[known.bias]:
        factors = [*(graph.in_float64(given[i]) for i in (1, 4))]
        factors.append(graph.constant(attribute(node, "alpha", 1.0)))
        scale = graph.add("Mul", graph.add("Mul", *factors[:2]), factors[2])
        inputs.append(graph.add("Mul", graph.in_float64(given[known.bias]), scale))
    scale, zero = (given[i] for i in known.output)
    real = f"{node.output[0]}~real" if scale else node.output[0]
    _add_float(graph, node, known.op_type, inputs, real)
    if scale:
        graph.quantize(real, (scale, zero), node.output[0])


def _dynamic_quantize_lstm(graph: Float64Graph, node: onnx.NodeProto) -> None:
    """An LSTM, for which there is a kernel in float32 only, of the numbers that weights stand for.

    These are [directions, input, 4 hidden], an LSTM's [directions, 4 hidden, input].
    """
    given = _padded(node, 12)
    for i, j in ((1, 8), (2, 10)):
        numbers = graph.dequantize((given[i], *given[j : j + 2]), axis=0)
        given[i] = graph.add("Transpose", numbers, attributes={"perm": (0, 2, 1)})
    lstm = helper.make_node("LSTM", given[:8], node.output)
    lstm.attribute.extend(node.attribute)
    wide = [i for i, name in enumerate(lstm.input) if name and i != 4]  # 4: lengths
    graph.add_in_float32(lstm, wide, [i for i, name in enumerate(node.output) if name])


DECOMPOSITIONS: Mapping[str, Callable[[Float64Graph, onnx.NodeProto], None]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "MatMulInteger": _integer("MatMul", (-2, -1)),
    "ConvInteger": _integer("Conv", (0, 0)),
    **dict.fromkeys(FLOAT_EQUIVALENTS, _equivalent),
}
"""Functions that add the nodes for one quantized node, by operator type."""
