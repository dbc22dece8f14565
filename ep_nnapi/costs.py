"""What a node costs, estimated from its sizes: multiply-accumulates and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from ep_nnapi.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph import GraphNode
from ep_nnapi.value import Value

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Multiply-accumulates, and bytes read and written (weights included)."""

    macs: int = 0
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.macs + other.macs, self.bytes + other.bytes)


def work(node: GraphNode) -> Work:
    """The work of a node; a dimension that is not known counts as 1."""
    weights = sum(bytes_of(v) for v in node.inputs if v is not None and v.constant is not None)
    moved = sum(bytes_of(v) for v in (*inputs_of(node), *outputs_of(node)))
    shapes = [_shape(v) for v in node.inputs]
    out = _shape(next(iter(outputs_of(node)), None))
    count = MACS.get(node.op_type)
    return Work(count(shapes, out) if count and len(shapes) > 1 else prod(out), moved + weights)


def total(nodes: Iterable[GraphNode]) -> Work:
    """The work of all the nodes."""
    return sum((work(n) for n in nodes), Work())


def _shape(value: Value | None) -> Shape:
    if value is None or value.dims is None:
        return ()
    return tuple(d if isinstance(d, int) else 1 for d in value.dims)


def _convolution(inputs: list[Shape], out: Shape) -> int:
    """Each output element is a sum over one filter [C / group, kH, kW]."""
    return prod(out) * prod(inputs[1][1:])


def _transposed(inputs: list[Shape], out: Shape) -> int:
    """Each input element goes into one filter [O / group, kH, kW]."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def _product(inputs: list[Shape], out: Shape) -> int:
    """Each output element is a sum over the inner dimension."""
    return prod(out) * (prod(inputs[0]) // max(1, prod(inputs[0][:-1])))


def _recurrent(inputs: list[Shape], out: Shape) -> int:
    """Each step multiplies with the input's weights and the recurrent ones."""
    steps = prod(inputs[0][:2])
    return steps * sum(prod(s) for s in inputs[1:3])


MACS: Mapping[str, Callable[[list[Shape], Shape], int]] = {
    "Conv": _convolution,
    "FusedConv": _convolution,
    "QLinearConv": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": _product,
    "MatMul": _product,
    "FusedMatMul": _product,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
