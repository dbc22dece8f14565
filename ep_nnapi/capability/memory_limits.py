"""Limits on scalars and on the memory of a node's operations, relative to its own tensors."""

from __future__ import annotations

from collections.abc import Iterable

from ep_nnapi.capability.shape_check import operands_of
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value, require_finite
from ep_nnapi.lowering.call import Arg, Call
from ep_nnapi.lowering.fusion import value_of, writes
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.shapes.scratch import SCRATCH, require_scratch

_ALLOWANCE = 1 << 22
"""Bytes always allowed for a constant or an intermediate, added to the relative limits."""
_CONSTANT_FACTOR = 4
"""Limit for a derived constant, as a multiple of the bytes of the node's constants."""
_TENSOR_FACTOR = 16
"""Limit for an intermediate, as a multiple of the bytes of all the node's tensors. Attention with
4096 positions and head size 64 has 16 times as many scores as inputs."""


def require_finite_scalars(call: Call, feature_level: int) -> None:
    """Raises Reject(ATTRIBUTE) for a float scalar that is infinite in its operand's type."""
    match = call.match(feature_level)
    for param, arg in zip(match.inputs, call.inputs, strict=True):
        if isinstance(arg, float):
            code = match.typing.code(param.type)
            if code is not None:
                require_finite(arg, code.numpy, f"{call.spec.name}.{param.name}")


def require_int32_scalars(call: Call) -> None:
    """Raises Reject(ATTRIBUTE) for a scalar integer that does not fit INT32."""
    for param, arg in zip(call.params, call.inputs, strict=True):
        if isinstance(arg, int) and not -(2**31) <= arg < 2**31:
            raise Reject(
                Reason.ATTRIBUTE,
                f"{call.spec.name}.{param.name} is {arg}, which does not fit INT32",
            )


def require_bounded_memory(node: GraphNode, call: Call) -> bool:
    """Returns True if the memory of a call is within the limits for any node, False for this one.

    Raises Reject(SIZE) if the call needs more memory than the sizes of the node justify. Constants
    are lazy, so the check runs before any of them is in memory.
    """
    used = (*_values(call.inputs), *writes(call))
    for_any = max(map(bytes_of, used), default=0) <= _ALLOWANCE
    if not for_any:
        _require_in_proportion(node, call)
    if call.spec in SCRATCH:
        require_scratch(call.spec, operands_of(call), sum(v.size for v in used))
    return for_any


def _require_in_proportion(node: GraphNode, call: Call) -> None:
    """Raises Reject(SIZE) for a tensor of the call that is far larger than the node's own."""
    constants = total = 0
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            size = bytes_of(value)
            total += size
            constants += 0 if value.constant is None else size
    read = _CONSTANT_FACTOR * constants + _ALLOWANCE
    written = _TENSOR_FACTOR * total + _ALLOWANCE
    for value in _values(call.inputs):
        if value.constant is not None and bytes_of(value) > read:
            raise _too_large(f"{call.spec.name} reads a derived constant", value, read)
    for value in writes(call):
        if bytes_of(value) > written:
            raise _too_large(f"{call.spec.name} computes a tensor", value, written)


def _values(args: Iterable[Arg]) -> list[Value]:
    return [value for value in map(value_of, args) if value is not None]


def _too_large(which: str, value: Value, most: int) -> Reject:
    detail = f"{which} of {bytes_of(value)} bytes; a node of these sizes is limited to {most}"
    return Reject(Reason.SIZE, detail)
