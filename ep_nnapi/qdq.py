"""QDQ groups made one node each, and the quantization of every value that has one.

A group is an operator whose floats all come from DequantizeLinear and all go to QuantizeLinear,
with at most a Relu or Clip before that: on NNAPI it is one operation on quantized tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ep_nnapi.graph import Graph, GraphNode
from ep_nnapi.value import DType, Quantization, Value

DEQUANTIZE, QUANTIZE = "DequantizeLinear", "QuantizeLinear"
_ACTIVATIONS = {"Relu", "Clip"}
_FLOATS = {DType.FLOAT, DType.FLOAT16}
_OUTSIDE = -1

# Operators that move elements: what goes in and what comes out are quantized alike.
_CARRIERS = {
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
}


def quantized(graph: Graph) -> Graph:
    """The graph with quantization on its values and its QDQ groups as single nodes.

    A value's quantization comes from the node that quantizes or dequantizes it and spreads, both
    ways, through operators that only move elements.
    """
    if not any(n.op_type in (DEQUANTIZE, QUANTIZE) or "Linear" in n.op_type for n in graph.nodes):
        return graph
    known = _spread(graph.nodes, dict(_stated(graph.nodes)))
    nodes = tuple(_with(n, known) for n in graph.nodes)
    return replace(
        graph,
        nodes=tuple(_Grouping.of(nodes, graph.outputs).grouped()),
        inputs=tuple(_quantize(v, known) for v in graph.inputs),
        outputs=tuple(_quantize(v, known) for v in graph.outputs),
    )


def _stated(nodes: Iterable[GraphNode]) -> Iterator[tuple[str, Quantization]]:
    """The quantization that nodes give as constant scales and zero points beside a value."""
    for node in nodes:
        for value, scale, zero, axis in _triples(node):
            found = _quantization(scale, zero, axis)
            if value is not None and found is not None:
                yield value.name, found


def _triples(
    node: GraphNode,
) -> Iterator[tuple[Value | None, Value | None, Value | None, int | None]]:
    """(value, scale, zero point, axis) as the node's operator has them."""
    ins = (*node.inputs, *[None] * 9)
    axis = node.attributes.get("axis", 1)
    where = axis if isinstance(axis, int) else 1
    match node.op_type:
        case "DequantizeLinear":
            yield ins[0], ins[1], ins[2], where
        case "QuantizeLinear":
            yield node.outputs[0], ins[1], ins[2], where
        case "QLinearConv":
            yield ins[0], ins[1], ins[2], None
            yield ins[3], ins[4], ins[5], 0
            yield node.outputs[0], ins[6], ins[7], None
        case "QLinearMatMul" | "QLinearAdd" | "QLinearMul":
            yield ins[0], ins[1], ins[2], None
            yield ins[3], ins[4], ins[5], 1
            yield node.outputs[0], ins[6], ins[7], None
        case name if name.startswith("QLinear"):
            yield ins[0], ins[1], ins[2], None
            yield node.outputs[0], ins[3], ins[4], None


def _quantization(scale: Value | None, zero: Value | None, axis: int | None) -> Quantization | None:
    """Per tensor for one scale, along `axis` for several; None unless constant."""
    if scale is None or scale.constant is None or (zero is not None and zero.constant is None):
        return None
    scales = tuple(float(s) for s in scale.constant.array.reshape(-1))
    zeros = (0,) * len(scales)
    if zero is not None and zero.constant is not None:
        zeros = tuple(int(z) for z in zero.constant.array.reshape(-1))
    if scale.constant.rank > 1:
        return None  # blocked quantization: NNAPI has no such
    return Quantization(scales, zeros, axis if len(scales) > 1 else None)


def _spread(
    nodes: Sequence[GraphNode], known: dict[str, Quantization]
) -> Mapping[str, Quantization]:
    """`known` carried forward and back through the carriers until nothing is added."""
    carriers = [n for n in nodes if n.op_type in _CARRIERS]
    before = -1
    while before != len(known):
        before = len(known)
        for node in (*carriers, *reversed(carriers)):
            values = [v for v in _carried(node) if v.dtype in (DType.UINT8, DType.INT8)]
            found = {known[v.name] for v in values if v.name in known}
            if len(found) == 1:
                (only,) = found
                known.update((v.name, only) for v in values)
    return known


def _carried(node: GraphNode) -> Iterator[Value]:
    """The values of a carrier that hold its elements."""
    data = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    for value in (*data, *node.outputs):
        if value is not None:
            yield value


def _with(node: GraphNode, known: Mapping[str, Quantization]) -> GraphNode:
    return replace(
        node,
        inputs=tuple(_quantize(v, known) if v is not None else None for v in node.inputs),
        outputs=tuple(_quantize(v, known) if v is not None else None for v in node.outputs),
    )


def _quantize(value: Value, known: Mapping[str, Quantization]) -> Value:
    found = known.get(value.name)
    return value if found is None else replace(value, quantization=found)


@dataclass(frozen=True, slots=True)
class _Grouping:
    """The graph's edges by value name; _OUTSIDE reads the graph's outputs."""

    nodes: tuple[GraphNode, ...]
    writer: Mapping[str, GraphNode]
    readers: Mapping[str, list[int]]

    @staticmethod
    def of(nodes: tuple[GraphNode, ...], outputs: Iterable[Value]) -> _Grouping:
        """The edges of `nodes`."""
        writer: dict[str, GraphNode] = {}
        readers: defaultdict[str, list[int]] = defaultdict(list)
        for node in nodes:
            writer.update((v.name, node) for v in node.outputs if v is not None)
            for name in (*(v.name for v in node.inputs if v is not None), *node.implicit):
                readers[name].append(node.id)
        for value in outputs:
            readers[value.name].append(_OUTSIDE)
        return _Grouping(nodes, writer, readers)

    def grouped(self) -> Iterator[GraphNode]:
        """Groups, each where its last member stood, and the nodes that are in none."""
        by_id = {n.id: n for n in self.nodes}
        groups = [g for n in self.nodes if (g := self._group(n, by_id)) is not None]
        last = {max(g.members, key=self._position().__getitem__): g for g in groups}
        inside = {i for g in groups for i in g.members}
        for node in self.nodes:
            if node.id in last:
                yield last[node.id]
            elif node.id not in inside:
                yield node

    def _position(self) -> dict[int, int]:
        return {n.id: i for i, n in enumerate(self.nodes)}

    def _group(self, node: GraphNode, by_id: Mapping[int, GraphNode]) -> GraphNode | None:
        """The group around operator `node`, or None."""
        if node.op_type in (DEQUANTIZE, QUANTIZE) or node.claimed_by:
            return None
        sources = [self._dequantized(v, node) for v in node.inputs]
        if not any(sources) or not self._all_quantized(node, sources):
            return None
        activation = self._activation(node, by_id)
        sinks = [self._quantizer(v, by_id) for v in (activation or node).outputs if v is not None]
        if any(s is None for s in sinks):
            return None
        quantizers = [s for s in sinks if s is not None]
        middle = (node,) if activation is None else (node, activation)
        parts = (*(s for s in sources if s is not None), *middle, *quantizers)
        return replace(
            node,
            inputs=tuple(
                v if s is None else s.inputs[0] for v, s in zip(node.inputs, sources, strict=True)
            ),
            outputs=tuple(q.outputs[0] for q in quantizers),
            members=tuple(p.id for p in parts),
            parts=parts,
            activation=activation,
        )

    def _dequantized(self, value: Value | None, node: GraphNode) -> GraphNode | None:
        """The DequantizeLinear that only `node` reads `value` from."""
        if value is None or self.readers[value.name] != [node.id]:
            return None
        source = self.writer.get(value.name)
        known = source is not None and source.op_type == DEQUANTIZE and not source.claimed_by
        return source if known and source is not None and _has_quantization(source) else None

    def _all_quantized(self, node: GraphNode, sources: Sequence[GraphNode | None]) -> bool:
        """Whether no float comes in but dequantized or constant."""
        pairs = zip(node.inputs, sources, strict=True)
        return all(
            s is not None or v is None or v.constant is not None or v.dtype not in _FLOATS
            for v, s in pairs
        )

    def _activation(self, node: GraphNode, by_id: Mapping[int, GraphNode]) -> GraphNode | None:
        if len(node.outputs) != 1 or node.outputs[0] is None:
            return None
        after = self._only_reader(node.outputs[0], by_id)
        fits = after is not None and after.op_type in _ACTIVATIONS and not after.claimed_by
        return after if fits else None

    def _quantizer(self, value: Value, by_id: Mapping[int, GraphNode]) -> GraphNode | None:
        after = self._only_reader(value, by_id)
        fits = after is not None and after.op_type == QUANTIZE and not after.claimed_by
        return after if fits else None

    def _only_reader(self, value: Value, by_id: Mapping[int, GraphNode]) -> GraphNode | None:
        readers = self.readers[value.name]
        return by_id.get(readers[0]) if len(readers) == 1 else None


def _has_quantization(dequantize: GraphNode) -> bool:
    value = dequantize.inputs[0]
    return value is not None and value.quantization is not None
