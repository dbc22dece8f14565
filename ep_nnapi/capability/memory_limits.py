"""How much a node's operations may hold beside what the node itself reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ep_nnapi.capability.shape_check import operands_of
from ep_nnapi.errors import Reason, Reject
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.call import Arg, Call, View
from ep_nnapi.nnapi.shapes.scratch import SCRATCH, require_scratch

_ALWAYS = 1 << 22
"""Bytes that a constant or an intermediate may have however small the node's own tensors are."""
_CONSTANTS = 4
"""Times the bytes of the node's constants: what a constant made of them may have."""
_TENSORS = 16
"""Times the bytes of all the node's tensors: what an intermediate may have. Attention over 4096
places with 64 numbers a head has 16 times as many scores as numbers."""


def require_32_bits(call: Call) -> None:
    """Raises Reject(ATTRIBUTE) for an integer that NNAPI's scalars do not hold."""
    for param, arg in zip(call.params, call.inputs, strict=True):
        if isinstance(arg, int) and not -(2**31) <= arg < 2**31:
            raise Reject(
                Reason.ATTRIBUTE,
                f"{call.spec.name}.{param.name} is {arg}, NNAPI's integers have 32 bits",
            )


def require_room(node: GraphNode, calls: Sequence[Call]) -> None:
    """Raises Reject(SIZE) when the node's calls take more than its own sizes justify.

    Large constants are lazy, so this comes before any of them is in memory.
    """
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    constants = sum(bytes_of(v) for v in values if v.constant is not None)
    read = _CONSTANTS * constants + _ALWAYS
    written = _TENSORS * sum(map(bytes_of, values)) + _ALWAYS
    for call in calls:
        made = [v for v in _values(call.inputs) if v.constant is not None]
        _limit(f"{call.spec.name} reads a constant made for it", made, read)
        _limit(f"{call.spec.name} computes a tensor", _values(call.outputs), written)
        if call.spec in SCRATCH:
            elements = sum(v.size for v in (*_values(call.inputs), *_values(call.outputs)))
            require_scratch(call.spec, operands_of(call), elements)


def _values(args: Iterable[Arg]) -> Iterator[Value]:
    for arg in args:
        value = arg.value if isinstance(arg, View) else arg
        if isinstance(value, Value):
            yield value


def _limit(which: str, values: Iterable[Value], most: int) -> None:
    for value in values:
        if bytes_of(value) > most:
            raise Reject(
                Reason.SIZE,
                f"{which} of {bytes_of(value)} bytes; a node of these sizes may take {most}",
            )
