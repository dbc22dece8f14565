"""Limits on scalars and on the memory of a node's operations, relative to its own tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ep_nnapi.capability.shape_check import operands_of
from ep_nnapi.errors import Reason, Reject
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.call import Arg, Call, View
from ep_nnapi.nnapi.shapes.scratch import SCRATCH, require_scratch

_ALLOWANCE = 1 << 22
"""Bytes always allowed for a constant or an intermediate, added to the relative limits."""
_CONSTANT_FACTOR = 4
"""Limit for a derived constant, as a multiple of the bytes of the node's constants."""
_TENSOR_FACTOR = 16
"""Limit for an intermediate, as a multiple of the bytes of all the node's tensors. Attention with
4096 positions and head size 64 has 16 times as many scores as inputs."""


def require_int32_scalars(call: Call) -> None:
    """Raises Reject(ATTRIBUTE) for a scalar integer that does not fit INT32."""
    for param, arg in zip(call.params, call.inputs, strict=True):
        if isinstance(arg, int) and not -(2**31) <= arg < 2**31:
            raise Reject(
                Reason.ATTRIBUTE,
                f"{call.spec.name}.{param.name} is {arg}, which does not fit INT32",
            )


def require_bounded_memory(node: GraphNode, calls: Sequence[Call]) -> None:
    """Raises Reject(SIZE) if the node's calls need more memory than its own sizes justify.

    Constants are lazy, so the check runs before any of them is in memory.
    """
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    constants = sum(bytes_of(v) for v in values if v.constant is not None)
    read = _CONSTANT_FACTOR * constants + _ALLOWANCE
    written = _TENSOR_FACTOR * sum(map(bytes_of, values)) + _ALLOWANCE
    for call in calls:
        made = [v for v in _values(call.inputs) if v.constant is not None]
        _require_at_most(f"{call.spec.name} reads a derived constant", made, read)
        _require_at_most(f"{call.spec.name} computes a tensor", _values(call.outputs), written)
        if call.spec in SCRATCH:
            elements = sum(v.size for v in (*_values(call.inputs), *_values(call.outputs)))
            require_scratch(call.spec, operands_of(call), elements)


def _values(args: Iterable[Arg]) -> Iterator[Value]:
    for arg in args:
        value = arg.value if isinstance(arg, View) else arg
        if isinstance(value, Value):
            yield value


def _require_at_most(which: str, values: Iterable[Value], most: int) -> None:
    for value in values:
        if bytes_of(value) > most:
            raise Reject(
                Reason.SIZE,
                f"{which} of {bytes_of(value)} bytes; a node of these sizes is limited to {most}",
            )
