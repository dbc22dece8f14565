"""Checks of an NNAPI operation for a target, once for operands of the same types and sizes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ep_nnapi.capability.memory_limits import (
    require_bounded_memory,
    require_finite_scalars,
    require_int32_scalars,
)
from ep_nnapi.capability.shape_check import check_shapes, may_be_shape
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Arg, Call, View
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.signature import Match
from ep_nnapi.nnapi.validate import MAX_BYTES
from ep_nnapi.options.target import Target

NO_ELEMENTS = "in NNAPI a size of 0 means unknown"
_MOST_PASSED = 4096
_passed: dict[Hashable, Match] = {}
"""The signature matched by calls that passed all checks, by what the checks read of them.

Most networks repeat their layers (`bench sessions`: an eighth of a session's creation).
"""


def check_call(call: Call, node: GraphNode, target: Target) -> None:
    """Check types, ranks, kernels, scalars, shapes and memory of a call of the node's lowering.

    Raises Reject with the first mismatch, and SpecError as `check_shapes` does.
    """
    key = _read_by_checks(call, target)
    if key is not None and key in _passed:
        call.set_match(_passed[key])
        return
    require_int32_scalars(call)
    match = call.match(target.feature_level)
    call.require_kernel(target.kernel_level)
    require_finite_scalars(call, target.feature_level)
    check_shapes(call)
    require_valid_sizes([arg for arg in call.inputs if isinstance(arg, Value)])
    if require_bounded_memory(node, call) and key is not None:
        if len(_passed) >= _MOST_PASSED:
            _passed.clear()
        _passed[key] = match


def require_valid_sizes(values: Iterable[Value]) -> None:
    """Raises Reject for a tensor that has no elements, a negative size or too many bytes."""
    for value in values:
        least = min([d for d in value.dims or () if isinstance(d, int)], default=1)
        if least < 1:
            if 0 in (value.dims or ()):
                raise Reject(Reason.SHAPE, f"{value.name} has no elements; {NO_ELEMENTS}")
            found = list(value.dims or ())
            raise Reject(Reason.SHAPE, f"{value.name} has a negative size: {found}")
        if bytes_of(value) > MAX_BYTES:
            raise Reject(
                Reason.SIZE,
                f"{value.name} has {bytes_of(value)} bytes; NNAPI's maximum is {MAX_BYTES}",
            )


def _read_by_checks(call: Call, target: Target) -> Hashable | None:
    """What the checks read of a call; None if they read the elements of a constant."""
    kinds = [_kind(arg) for arg in (*call.inputs, *call.outputs)]
    if None in kinds:
        return None
    levels = target.feature_level, target.kernel_level
    return levels, call.spec.code, tuple([p.name for p in call.params]), tuple(kinds)


def _kind(arg: Arg) -> Hashable | None:
    """What the checks read of an operand; None if they read its elements."""
    if isinstance(arg, View):
        return _kind(arg.value), arg.perm
    if not isinstance(arg, Value):
        return type(arg), arg  # with the type, as True, 1 and 1.0 are equal
    if arg.constant is not None and may_be_shape(arg.constant):
        return None
    return arg.dtype, arg.dims, arg.quantization
