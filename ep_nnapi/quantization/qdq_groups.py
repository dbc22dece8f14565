"""QDQ groups: an operator with its DequantizeLinear and QuantizeLinear nodes, or a QLinear one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.operators.lib.quantizing import dequantized, dequantized_in_blocks

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

    def triples(self, count: int) -> Iterator[Triple]:
        """Yields the input indices of all quantized inputs of a node of `count` inputs."""
        yield from self.inputs
        if self.repeats:
            yield from ((i, i + 1, i + 2) for i in range(self.inputs[-1][0] + 3, count, 3))


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
    found = [node.inputs[tensor] for tensor, _, _ in equivalent.triples(len(node.inputs))]
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


DEQUANTIZE, QUANTIZE = "DequantizeLinear", "QuantizeLinear"
_ACTIVATIONS = {"Relu", "Clip"}
_FLOATS = {DType.FLOAT, DType.FLOAT16}
_GRAPH_OUTPUT = -1


def group_qdq(nodes: tuple[GraphNode, ...], outputs: Iterable[Value]) -> tuple[GraphNode, ...]:
    """Replaces each QDQ group by one node, at the position of its last member.

    outputs   the outputs of the graph
    A group's operator has only dequantized or constant float inputs. All its float outputs are
    quantized, possibly through a Relu or Clip. If only constants are
    dequantized for an operator, these and the operator form a group that has the real numbers as
    its constants. A tensor of 16 bits is in no such group: its QuantizeLinear and what dequantizes
    it are one, at the position of the first, of which inputs and outputs are real numbers.
    """
    edges = _Edges.of(nodes, outputs)
    every = (edges.group(n) or edges.fold_constants(n) or edges.rounding(n) for n in nodes)
    groups = [group for group in every if group is not None]
    position = {n.id: i for i, n in enumerate(nodes)}
    places = {
        g.id if g.op_type == QUANTIZE else max(g.members, key=position.__getitem__): g
        for g in groups
    }
    inside = {i for g in groups for i in g.members} - places.keys()
    return tuple(places.get(n.id, n) for n in nodes if n.id not in inside)


@frozen
class _Edges:
    """Producers and consumers by value name; graph outputs have the consumer _OUTSIDE."""

    by_id: Mapping[int, GraphNode]
    producers: Mapping[str, GraphNode]
    consumers: Mapping[str, Sequence[int]]

    @staticmethod
    def of(nodes: Iterable[GraphNode], outputs: Iterable[Value]) -> _Edges:
        """The edges of `nodes`."""
        by_id: dict[int, GraphNode] = {}
        producers: dict[str, GraphNode] = {}
        consumers: defaultdict[str, list[int]] = defaultdict(list)
        for node in nodes:
            by_id[node.id] = node
            producers.update((v.name, node) for v in node.outputs if v is not None)
            for name in (*(v.name for v in node.inputs if v is not None), *node.implicit):
                consumers[name].append(node.id)
        for value in outputs:
            consumers[value.name].append(_GRAPH_OUTPUT)
        return _Edges(by_id, producers, consumers)

    def group(self, node: GraphNode) -> GraphNode | None:
        """The QDQ group around operator `node`, or None."""
        if node.op_type in (DEQUANTIZE, QUANTIZE) or node.claimed_by:
            return None
        sources = [self._dequantizer(v, node) for v in node.inputs]
        sources = [s if _can_be_inside(s) else None for s in sources]
        if not any(sources) or not _all_quantized(node, sources):
            return None
        activation = self._activation(node)
        float_outputs = (activation or node).outputs
        sinks = [v and self._quantizer(v) for v in float_outputs]
        if any(s is None for s, v in zip(sinks, float_outputs, strict=True) if v is not None):
            return None
        quantizers = [s for s in sinks if isinstance(s, GraphNode)]
        middle = (node,) if activation is None else (node, activation)
        inputs = (
            v if s is None else s.inputs[0] for v, s in zip(node.inputs, sources, strict=True)
        )
        outputs = (s.outputs[0] if isinstance(s, GraphNode) else s for s in sinks)
        parts = (*_unique(sources), *middle, *quantizers)
        whole = replace(node, inputs=tuple(inputs), outputs=tuple(outputs), activation=activation)
        return _group_node(whole, parts)

    def fold_constants(self, node: GraphNode) -> GraphNode | None:
        """`node` with its dequantized constants folded to real numbers, or None if it has none."""
        if node.op_type in (DEQUANTIZE, QUANTIZE) or node.claimed_by:
            return None
        sources = [self._dequantizer(v, node) for v in node.inputs]
        pairs = list(zip(node.inputs, sources, strict=True))
        real = [_real_numbers(s, v.dtype) if v and s else None for v, s in pairs]
        if not any(real):
            return None
        known = (s for s, numbers in zip(sources, real, strict=True) if numbers is not None)
        inputs = tuple(r or v for r, v in zip(real, node.inputs, strict=True))
        return _group_node(replace(node, inputs=inputs), (*_unique(known), node))

    def rounding(self, node: GraphNode) -> GraphNode | None:
        """A QuantizeLinear to 16 bits with the nodes that dequantize all of it, or None."""
        stored = node.outputs[0]
        if node.op_type != QUANTIZE or node.claimed_by or stored is None or not _is_16bit(stored):
            return None
        readers = [self.by_id.get(i) for i in dict.fromkeys(self.consumers[stored.name])]
        known = [
            r
            for r in readers
            if r is not None and r.op_type == DEQUANTIZE and not r.claimed_by
            if r.inputs[0] is not None and r.inputs[0].quantization == stored.quantization
        ]
        if not readers or len(known) < len(readers) or stored.quantization is None:
            return None
        outputs = tuple(r.outputs[0] for r in known)
        return _group_node(replace(node, outputs=outputs), (node, *known))

    def _dequantizer(self, value: Value | None, node: GraphNode) -> GraphNode | None:
        """The DequantizeLinear that computes `value`, if only `node` reads it; else None."""
        if value is None or set(self.consumers[value.name]) != {node.id}:
            return None
        source = self.producers.get(value.name)
        known = source is not None and source.op_type == DEQUANTIZE and not source.claimed_by
        return source if known else None

    def _activation(self, node: GraphNode) -> GraphNode | None:
        if len(node.outputs) != 1 or node.outputs[0] is None:
            return None
        after = self._only_consumer(node.outputs[0])
        if after is None or after.op_type not in _ACTIVATIONS or after.claimed_by:
            return None
        known = all(v is None or v.constant is not None for v in after.inputs[1:])
        return after if known else None

    def _quantizer(self, value: Value) -> GraphNode | Value | None:
        """The QuantizeLinear of a float `value`, or None; `value` itself if it is not float."""
        if value.dtype not in _FLOATS:
            return value
        after = self._only_consumer(value)
        fits = after is not None and after.op_type == QUANTIZE and not after.claimed_by
        stored = after.outputs[0] if after is not None and fits else None
        return after if stored is not None and not _is_16bit(stored) else None

    def _only_consumer(self, value: Value) -> GraphNode | None:
        consumers = self.consumers[value.name]
        return self.by_id.get(consumers[0]) if len(consumers) == 1 else None


def _unique(nodes: Iterable[GraphNode | None]) -> tuple[GraphNode, ...]:
    """The nodes without None and without duplicates."""
    return tuple({n.id: n for n in nodes if n is not None}.values())


def _group_node(whole: GraphNode, parts: tuple[GraphNode, ...]) -> GraphNode:
    return replace(whole, members=tuple(p.id for p in parts), parts=parts)


def _all_quantized(node: GraphNode, sources: Sequence[GraphNode | None]) -> bool:
    """True if every float input is dequantized or constant."""
    pairs = zip(node.inputs, sources, strict=True)
    return all(
        s is not None or v is None or v.constant is not None or v.dtype not in _FLOATS
        for v, s in pairs
    )


def _can_be_inside(dequantize: GraphNode | None) -> bool:
    value = None if dequantize is None else dequantize.inputs[0]
    if value is None or value.quantization is None:
        return False
    return value.constant is not None or not _is_16bit(value)


def _is_16bit(value: Value) -> bool:
    return value.dtype in (DType.UINT16, DType.INT16)


def _real_numbers(dequantize: GraphNode, dtype: DType) -> Value | None:
    """The constant that a DequantizeLinear makes of constants, computed when read, or None."""
    stored = dequantize.inputs[0]
    if stored is None or stored.constant is None:
        return None
    if stored.quantization is None:
        return dequantized_in_blocks(dequantize, dtype)
    return dequantized(stored, dtype)
