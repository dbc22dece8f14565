"""Propagation of quantization parameters through a graph, and formation of QDQ groups.

A group is an operator with all float inputs from DequantizeLinear and all float outputs to
QuantizeLinear, possibly through a Relu or Clip. NNAPI has one operation for it, on quantized
tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ep_nnapi.graph.graph import Graph, GraphNode, with_values
from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.operators import OPS
from ep_nnapi.quantization.qdq_groups import (
    DEQUANTIZE,
    FLOAT_EQUIVALENTS,
    QUANTIZE,
    as_group,
    group_qdq,
)

_MOVERS = frozenset(o.op_type for o in OPS if o.moves)
_ORDER_ONLY = {"ArgMax", "ArgMin"}
"""Operators that depend only on the order of elements, which quantization preserves."""


_EIGHT_BIT = (DType.UINT8, DType.INT8)
RAW_INTEGER_OPS: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "ConvInteger": (range(4), ()),
    "DynamicQuantizeLinear": ((), (0, 2)),
    "MatMulInteger": (range(4), ()),
}
"""Operators on raw integers: indices of the inputs and outputs that are not scaled."""
_QUANTIZED_OPS = frozenset((DEQUANTIZE, QUANTIZE, *FLOAT_EQUIVALENTS, *RAW_INTEGER_OPS))
_IDENTITY = Quantization((1.0,), (0,))
"""Identity quantization: the real value equals the stored integer."""


def propagate_quantization(graph: Graph) -> Graph:
    """Returns the graph with quantization parameters on its values and with QDQ groups as nodes.

    A value's parameters come from the node that quantizes or dequantizes it. They propagate forward
    and backward through operators that only move elements. A value with conflicting parameters has
    none.
    """
    if not any(n.op_type in _QUANTIZED_OPS for n in graph.nodes):
        return graph
    stored = tuple(map(_widened, graph.nodes))
    declared = _all_declarations(stored)
    known = _propagate(stored, declared)
    nodes = tuple(as_group(_quantize_node(n, known)) for n in stored)
    return replace(
        graph,
        nodes=group_qdq(nodes, graph.outputs),
        inputs=tuple(_quantize_value(v, known) for v in graph.inputs),
        outputs=tuple(_quantize_value(v, known) for v in graph.outputs),
    )


def _widened(node: GraphNode) -> GraphNode:
    """A DequantizeLinear of constants of 4 bits has them as 8 bits: the same numbers."""
    numbers, _, *zero = (*node.inputs, None, None)
    packed = [v for v in (numbers, *zero) if v is not None and v.dtype.widened is not v.dtype]
    if node.op_type != DEQUANTIZE or not packed or any(v.constant is None for v in packed):
        return node

    def wide(value: Value | None) -> Value | None:
        if value is None or value.constant is None or value.dtype.widened is value.dtype:
            return value
        kind = value.dtype.widened
        constant = replace(value.constant, dtype=kind, packed=value.dtype)
        return replace(value, dtype=kind, constant=constant)

    return with_values(node, wide, lambda value: value)


def _quantization(
    value: Value, scale: Value | None, zero: Value | None, axis: int | None
) -> Quantization | None:
    """Per tensor for one scale, per axis for several; None if not constant or blocked."""
    parameters = [v.constant for v in (scale, zero) if v is not None]
    known = [c for c in parameters if c is not None and c.dtype.readable and c.rank <= 1]
    if scale is None or len(known) < len(parameters) or not value.dtype.readable:
        return None
    scales = tuple(float(s) for s in known[0].array.reshape(-1))
    zeros = tuple(int(z) for c in known[1:] for z in c.array.reshape(-1))
    if zero is None:
        zeros = (0,) * len(scales)
    if len(scales) == len(zeros) == 1:
        return Quantization(scales, zeros)
    dims = value.dims or ()
    if axis is None or not -len(dims) <= axis < len(dims):
        return None
    size = dims[axis]
    fits = len(zeros) == len(scales) == (size if isinstance(size, int) else len(scales))
    return Quantization(scales, zeros, axis % len(dims)) if fits else None


def _declarations(node: GraphNode) -> Iterator[tuple[Value, Quantization | None]]:
    """Yields the values for which the node declares a scale and zero point, with these."""
    if node.op_type not in _QUANTIZED_OPS:
        return
    inputs = (*node.inputs, *[None] * 9)
    output = node.outputs[0]
    axis = node.attributes.get("axis", 1)
    at_axis = axis if isinstance(axis, int) else 1
    equivalent = FLOAT_EQUIVALENTS.get(node.op_type)
    triples: list[tuple[Value | None, Value | None, Value | None, int | None]] = []
    if node.op_type in (DEQUANTIZE, QUANTIZE):
        stored = output if node.op_type == QUANTIZE else inputs[0]
        triples.append((stored, inputs[1], inputs[2], at_axis))
    elif equivalent is not None:
        triples += [
            (inputs[x], inputs[s], inputs[z], equivalent.axis(node, x))
            for x, s, z in equivalent.triples(len(node.inputs))
        ]
        scale, zero = equivalent.output
        triples.append((output, inputs[scale], inputs[zero], None))
    yield from ((v, _quantization(v, s, z, at)) for v, s, z, at in triples if v is not None)
    read, outputs = RAW_INTEGER_OPS.get(node.op_type, ((), ()))
    numbers = (
        *(inputs[i] for i in read),
        *(node.outputs[i] for i in outputs if i < len(node.outputs)),
    )
    yield from ((v, _IDENTITY) for v in numbers if v is not None)


def _all_declarations(nodes: Iterable[GraphNode]) -> dict[str, set[Quantization | None]]:
    """The quantization parameters that the nodes declare, by value name."""
    found: defaultdict[str, set[Quantization | None]] = defaultdict(set)
    for node in nodes:
        for value, quantization in _declarations(node):
            found[value.name].add(quantization)
    return found


def _propagate(
    nodes: Sequence[GraphNode], declared: Mapping[str, set[Quantization | None]]
) -> Mapping[str, Quantization]:
    """Consistent declarations, propagated through `_MOVERS` both ways to a fixed point."""
    known = {
        n: q
        for n, parameters in declared.items()
        if len(parameters) == 1
        for q in parameters
        if q is not None
    }
    movers = [n for n in nodes if n.op_type in _MOVERS]
    before = -1
    while before != len(known):
        before = len(known)
        for node in (*movers, *reversed(movers)):
            values = [v for v in _moved_values(node) if v.dtype in _EIGHT_BIT]
            found = {known[v.name] for v in values if v.name in known}
            if len(found) == 1:
                (only,) = found
                known.update((v.name, only) for v in values if v.name not in declared)
    return known


def _moved_values(node: GraphNode) -> Iterator[Value]:
    """Yields the data inputs and outputs of an operator that only moves elements."""
    data = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    for value in (*data, *node.outputs):
        if value is not None:
            yield value


def _quantize_node(node: GraphNode, known: Mapping[str, Quantization]) -> GraphNode:
    """The node with quantized values; for constants, this node's declaration takes precedence."""
    declared = _declarations(node)
    own = {v.name: q for v, q in declared if v.constant is not None and q is not None}
    return _quantize_values(node, {**known, **own})


def _quantize_values(node: GraphNode, known: Mapping[str, Quantization]) -> GraphNode:
    def quantized(value: Value | None) -> Value | None:
        return value and _quantize_value(value, known)

    return with_values(node, quantized, quantized)


def with_identity_quantization(node: GraphNode) -> GraphNode:
    """Gives unquantized 8-bit values of a node that only moves elements the identity quantization.

    NNAPI's 8-bit tensors are all quantized. Other nodes are returned unchanged.
    """
    if node.op_type not in _MOVERS or node.domain:
        return node
    moved = tuple(_moved_values(node))
    bytes_alone = all(v.dtype in _EIGHT_BIT and v.quantization is None for v in moved)
    interpolated = node.op_type == "Resize" and node.attributes.get("mode", "nearest") != "nearest"
    if interpolated or not bytes_alone:
        return node
    return _quantize_values(node, {v.name: _IDENTITY for v in moved})


def require_unquantized(node: GraphNode) -> None:
    """Raises Reject(QUANTIZATION) if a single node computes with integers of quantized values.

    NNAPI's operations on quantized tensors compute with the dequantized values instead.
    """
    found = {
        v.quantization: v.name
        for v in (*node.inputs, *node.outputs)
        if v is not None and v.quantization is not None and v.constant is None
    }
    if not found or node.op_type in _QUANTIZED_OPS:
        return
    names = " and ".join(found.values())
    if len(found) > 1:
        detail = f"{names} have different scales or zero points; {node.op_type} does not requantize"
        raise Reject(Reason.QUANTIZATION, detail)
    if node.op_type not in _MOVERS | _ORDER_ONLY:
        raise Reject(
            Reason.QUANTIZATION,
            f"{node.op_type} computes with the raw integers of {names}; "
            "put it between DequantizeLinear and QuantizeLinear",
        )


def _quantize_value(value: Value, known: Mapping[str, Quantization]) -> Value:
    found = known.get(value.name)
    return value if found is None else replace(value, quantization=found)
