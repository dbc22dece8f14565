"""Checks of an NNAPI operation for a target: types, scalars, shapes, memory of its node.

Operands of the same types and sizes are checked once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import prod
from operator import attrgetter
from typing import Any

from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import (
    ITEM_BYTES,
    Constant,
    Dim,
    DType,
    Value,
    operand_shape,
    require_finite,
)
from ep_nnapi.lowering.arguments import Arg, Given, View, value_of
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError
from ep_nnapi.nnapi.expressions import Expression
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Operands, ShapeError, ShapeOperand, Tensor
from ep_nnapi.nnapi.shapes.scratch import SCRATCH, require_scratch
from ep_nnapi.nnapi.signature import Match
from ep_nnapi.nnapi.sizes import Size, at_present
from ep_nnapi.nnapi.validate import MAX_BYTES
from ep_nnapi.options.target import Target

NO_ELEMENTS = "in NNAPI a size of 0 means unknown"
_MOST_PASSED = 4096
_NAME = attrgetter("name")
_passed: dict[Hashable, Match] = {}
"""The signature matched by calls that passed all checks, by what the checks read of them.

Most networks repeat their layers (`bench sessions`: an eighth of a session's creation).
"""


def check_call(call: Call, node: GraphNode, target: Target) -> None:
    """Check types, ranks, kernels, scalars, shapes and memory of a call of the node's lowering.

    Raises Reject with the first mismatch, and SpecError as `check_shapes` does.
    """
    key, passed = _read_by_checks(call, target)
    if key in passed:
        call.set_match(passed[key])
        return
    require_int32_scalars(call)
    match = call.match(target.feature_level)
    call.require_kernel(target.kernel_level)
    require_finite_scalars(call, target.feature_level)
    check_shapes(call)
    require_valid_sizes([arg for arg in call.inputs if isinstance(arg, Value)])
    if require_bounded_memory(node, call):
        if len(passed) >= _MOST_PASSED:
            passed.clear()
        passed[key] = match


def _passed_with(sizes: Iterable[object]) -> dict[Hashable, Any]:
    """The cache of passed checks: that of the trace if a size is symbolic, else `_passed`."""
    return next((size.trace.passed for size in sizes if isinstance(size, Size)), _passed)


def require_valid_sizes(values: Iterable[Value]) -> None:
    """Raises Reject for a tensor that has no elements, a negative size or too many bytes."""
    for value in values:
        passed: dict[Hashable, Any] = _passed
        sizes = None
        if value.dims and Size in map(type, value.dims):
            passed, sizes = _passed_with(value.dims), (value.dtype, _expressions(value.dims))
            if sizes in passed:
                continue
        found = [d for d in value.dims or () if isinstance(d, int)]
        below = any(d < 1 for d in found) if sizes is not None else min(found, default=1) < 1
        if below:
            if 0 in found:
                raise Reject(Reason.SHAPE, f"{value.name} has no elements; {NO_ELEMENTS}")
            raise Reject(
                Reason.SHAPE, f"{value.name} has a negative size: {list(value.dims or ())}"
            )
        taken = prod(found, start=ITEM_BYTES[value.dtype])
        if taken > MAX_BYTES:
            detail = f"{value.name} has {taken} bytes; NNAPI's maximum is {MAX_BYTES}"
            raise Reject(Reason.SIZE, detail)
        if sizes is not None:
            passed[sizes] = None


def _read_by_checks(call: Call, target: Target) -> tuple[Hashable, dict[Hashable, Any]]:
    """What the checks read of a call, and what `_passed` is for it."""
    kinds: list[Hashable] = [target.feature_level, target.kernel_level, call.spec.code]
    kinds += map(_NAME, call.params)
    passed = _passed
    for arg in (*call.inputs, *call.outputs):
        value = arg
        if isinstance(arg, View):
            value = arg.value
            kinds.append(arg.perm)
        if isinstance(value, Size):
            kinds.append(value.expression)
            passed = value.trace.passed
            continue
        if not isinstance(value, Value):
            kinds += value.__class__.__name__, value  # True, 1 and 1.0 are equal
            continue
        numbers = value.constant.numbers if value.constant else ()
        kinds += value.dtype, _expressions(value.dims), value.quantization, _elements(value)
        if passed is _passed and Size in map(type, (*(value.dims or ()), *numbers)):
            passed = _passed_with((*(value.dims or ()), *numbers))
    return tuple(kinds), passed


def _elements(value: Value) -> Hashable:
    """What the checks read of a constant's elements."""
    constant = value.constant
    if constant is None or not may_be_shape(constant):
        return None
    numbers = constant.numbers
    return tuple(map(Expression.of, numbers)) if numbers else constant.load().tobytes()


def _expressions(dims: tuple[Dim, ...] | None) -> Hashable:
    """The dimensions with the expressions of their sizes."""
    if not dims or Size not in map(type, dims):
        return dims
    return tuple(
        [d if type(d) is int else d.expression if isinstance(d, Size) else d for d in dims]
    )


_ALLOWANCE = 1 << 22
"""Bytes always allowed for a constant or an intermediate, added to the relative limits."""
_CONSTANT_FACTOR = 8
"""Limit for a derived constant, as a multiple of the bytes of the node's constants: weights of 4
bits are 8 times as large as floats."""
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
        if isinstance(arg, int) and not -(2**31) <= at_present(arg) < 2**31:
            detail = f"{call.spec.name}.{param.name} is {arg}, which does not fit INT32"
            raise Reject(Reason.ATTRIBUTE, detail)


def require_bounded_memory(node: GraphNode, call: Call) -> bool:
    """Returns True if the memory of a call is within the limits for any node, False for this one.

    Raises Reject(SIZE) if the call needs more memory than the sizes of the node justify. Constants
    are lazy, so the check runs before any of them is in memory.
    """
    used = (*_values(call.inputs), *call.writes)
    for_any = max(map(_bytes_now, used), default=0) <= _ALLOWANCE
    if not for_any:
        _require_in_proportion(node, call)
    if call.spec in SCRATCH:
        require_scratch(call.spec, operands_of(call), sum(at_present(v.size) for v in used))
    return for_any


def _require_in_proportion(node: GraphNode, call: Call) -> None:
    """Raises Reject(SIZE) for a tensor of the call that is far larger than the node's own."""
    constants = total = 0
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            size = _bytes_now(value)
            total += size
            constants += 0 if value.constant is None else size
    read = _CONSTANT_FACTOR * constants + _ALLOWANCE
    written = _TENSOR_FACTOR * total + _ALLOWANCE
    for value in _values(call.inputs):
        if value.constant is not None and _bytes_now(value) > read:
            raise _too_large(f"{call.spec.name} reads a derived constant", value, read)
    for value in call.writes:
        if _bytes_now(value) > written:
            raise _too_large(f"{call.spec.name} computes a tensor", value, written)


def _bytes_now(value: Value) -> int:
    """The bytes at the sizes that the symbols have now: the limits are relative to such sizes."""
    found = ITEM_BYTES[value.dtype]
    for dim in value.dims or ():
        if type(dim) is int:
            found *= dim
        elif isinstance(dim, Size):
            found *= dim.number
    return found


def _values(args: Iterable[Arg]) -> list[Value]:
    return [value for value in map(value_of, args) if value is not None]


def _too_large(which: str, value: Value, most: int) -> Reject:
    detail = f"{which} of {bytes_of(value)} bytes; a node of these sizes is limited to {most}"
    return Reject(Reason.SIZE, detail)


_MAX_SHAPE_SIZE = 64  # size of an axis up to which an INT32 constant is read


def check_shapes(call: Call) -> None:
    """Compares the call's output shapes with those of NNAPI's shape inference.

    Raises Reject(SHAPE) if NNAPI rejects the operands as inconsistent. Raises SpecError if it
    infers other output shapes than the lowering declares, which is a defect of the lowering.
    """
    try:
        inferred = infer(call.spec, operands_of(call), len(call.outputs))
    except ShapeError as error:
        raise Reject(Reason.SHAPE, f"{call.spec.name}: {error}") from None
    for dims, out in zip(inferred, call.outputs, strict=True):
        declared = out.shape if isinstance(out, View) else operand_shape(out.shape)
        if dims is not None and not _matches(dims, declared):
            name = out.value.name if isinstance(out, View) else out.name
            raise SpecError(f"{call.spec.name} computes {list(dims)} for {name}, not {declared}")


def operands_of(call: Call) -> Operands:
    """The call's operands by parameter name, in the form that shape inference expects."""
    return {name: _operand(arg) for name, arg in call.named().items()}


def _matches(inferred: tuple[int | None, ...], declared: tuple[int, ...]) -> bool:
    if len(inferred) != len(declared):
        return False
    return inferred == declared or all(
        a is None or a == b for a, b in zip(inferred, declared, strict=True)
    )


def _operand(arg: Given) -> ShapeOperand | tuple[ShapeOperand, ...]:
    if arg is None or isinstance(arg, (int, float)):
        return arg
    return tuple([_tensor(each) for each in arg]) if isinstance(arg, tuple) else _tensor(arg)


def _tensor(arg: Given) -> Tensor:
    if isinstance(arg, View):
        return Tensor(arg.shape)
    if not isinstance(arg, Value):
        raise SpecError(f"{arg!r} is not a tensor")
    constant = arg.constant
    if constant is None or not may_be_shape(constant):
        return Tensor(operand_shape(arg.shape))
    return Tensor(operand_shape(arg.shape), constant.load(), constant.numbers)


def may_be_shape(constant: Constant) -> bool:
    """True for a constant whose elements are read, as they may be a shape, axes or paddings."""
    return (
        constant.dtype is DType.INT32
        and constant.rank <= 2
        and max(constant.shape, default=1) <= _MAX_SHAPE_SIZE
    )
