"""The node that a lowering gets, with building blocks of calls, and the declaration of operators.

A step is a generator that yields NNAPI calls and returns the value that they compute:
`t = yield from n.compute(EXP, x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import wraps
from math import prod
from types import ModuleType
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value, operand_shape
from ep_nnapi.lowering.arguments import Given
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import at_present, broadcast, identical, is_symbolic, now
from ep_nnapi.operators.lib.node_view import NodeView

KNOWN_OPSET = 26
"""The newest supported ai.onnx opset; a node with a later schema is rejected (OPSET)."""
Computed: TypeAlias = Generator[Call, None, Value]
Move: TypeAlias = Callable[[Value, Value], Iterator[Call]]
"""`move(x, y)` yields the calls that compute `y` from `x`."""

MAX_FILL_CONSTANT = 4096
"""Largest number of elements of a uniform tensor that is stored, not filled at run time."""
EXACT_IN_FLOAT = 2**24
"""Integers below this in magnitude are exact in float32."""


@immutable
class Node(NodeView):
    """A graph node and the target it is lowered for, with the steps that lowerings consist of."""

    def compute(
        self,
        row: OperationSpec,
        *given: Given,
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
        **named: Given,
    ) -> Computed:
        """Emit `row` on the given operands; return its result, a new intermediate.

        dtype   default: the type of the first value
        shape   default: the shape to which the tensor operands broadcast
        """
        tensors = [g for g in (*given, *named.values()) if isinstance(g, Value | Constant)]
        like = next(t for t in tensors if isinstance(t, Value))
        sizes = broadcast_shape(*(t.shape for t in tensors)) if shape is None else shape
        out = self.temp(like, sizes, dtype)
        yield apply(row, *given, out=out, **named)
        return out

    def reshaped(self, x: Value, shape: Sequence[int]) -> Computed:
        """Return `x` in another shape; `x` itself where NNAPI already stores it in that shape."""
        if identical(operand_shape(x.shape), shape):
            return x
        if prod(x.shape) != prod(shape):
            detail = f"{x.name} has shape {list(x.shape)}, which does not reshape to {list(shape)}"
            raise Reject(Reason.SHAPE, detail)
        if x.constant is not None:
            return replace(x, dims=tuple(shape), constant=x.constant.reshaped(shape))
        out = self.temp(x, shape)
        yield from self.reshape(x, out)
        return out

    def reshape(self, x: Value, y: Value) -> Iterator[Call]:
        """Emit `y` = `x` reshaped to the shape of `y`, for any element type."""
        before, after = operand_shape(x.shape), operand_shape(y.shape)
        call = apply(spec.RESHAPE, x, shape=int32(after), out=y)
        if x.dtype is DType.BOOL:
            if before == after:
                yield apply(spec.LOGICAL_OR, x, x, out=y)
                return
            yield from self.of_any_type(x, y, self.reshape)
        elif self.supports(call) or x.dtype is not DType.INT32:
            yield call
        elif before == after:
            yield apply(spec.CAST, x, out=y)
        else:
            yield from _expanded_dims(self, x, y) or (call,)

    def output_or_temp(self, y: Value, shape: Sequence[int]) -> Value:
        """Return `y`, or an intermediate of `shape` if NNAPI stores `y` in another shape.

        `write_output` then emits the reshape to `y`.
        """
        return y if identical(operand_shape(y.shape), shape) else self.temp(y, shape)

    def write_output(self, result: Value, y: Value) -> Iterator[Call]:
        """Emit the reshape from `result`, as of `output_or_temp`, to `y`, if they differ."""
        if result is not y:
            yield from self.reshape(result, y)

    def compute_as(
        self, y: Value, shape: Sequence[int], row: OperationSpec, *given: Given, **named: Given
    ) -> Iterator[Call]:
        """Emit `y` = `row` on the operands, of which the result has `shape`, in its own shape."""
        result = self.output_or_temp(y, shape)
        yield apply(row, *given, out=result, **named)
        yield from self.write_output(result, y)

    def full(self, number: float, shape: Sequence[int], dtype: DType = DType.FLOAT) -> Computed:
        """Return a uniform tensor: a constant, or FILL where it is large and the level has FILL."""
        sizes = operand_shape(shape)
        constant = Constant(
            sizes, dtype, lambda: np.broadcast_to(np.array(number, dtype.numpy), sizes)
        )
        value = Value(f"all {number:g}", dtype, sizes, constant=constant)
        if not is_symbolic(sizes) and prod(sizes) <= MAX_FILL_CONSTANT:
            return value
        out = self.temp(value, sizes)
        call = apply(
            spec.FILL,
            dims=int32(sizes),
            value=int(number) if dtype is DType.INT32 else float(number),
            out=out,
        )
        if not self.supports(call):
            return value
        yield call
        return out

    def as_number(self, x: Value, dtype: DType = DType.FLOAT) -> Computed:
        """Return a boolean tensor as numbers 1 and 0."""
        out = self.temp(x, dtype=dtype)
        yield from self.number_into(x, out)
        return out

    def number_into(self, x: Value, y: Value) -> Iterator[Call]:
        """Emit `y` = 1 where the boolean `x` is true, else 0."""
        one = yield from self.full(1, x.shape, y.dtype)
        zero = yield from self.full(0, x.shape, y.dtype)
        yield apply(spec.SELECT, x, one, zero, out=y)

    def of_any_type(self, x: Value, y: Value, move: Move) -> Iterator[Call]:
        """Emit `move(x, y)`, which only moves elements; booleans are moved as numbers 1 and 0."""
        self.require_same_quantization(x, y)
        if x.dtype is not DType.BOOL:
            yield from move(x, y)
            return
        number = yield from self.as_number(x)
        moved = self.temp(number, y.shape)
        yield from move(number, moved)
        yield apply(spec.NOT_EQUAL, moved, self.scalar(0, moved), out=y)

    def require_same_quantization(self, x: Value, y: Value) -> None:
        """Raise Reject(QUANTIZATION) unless both are quantized or neither is.

        Differing quantization parameters are requantized (`ep_nnapi.capability.requantize`).
        """
        detail = f"of {x.name} and {y.name} only one is quantized; NNAPI moves elements as they are"
        self.require(
            (x.quantization is None) == (y.quantization is None), Reason.QUANTIZATION, detail
        )

    def indices(self, x: Value, size: int) -> Computed:
        """Return indexes into a dimension of `size` with negative ones made non-negative.

        Each must be within [-size, size), as ONNX demands, and therefore fits INT32.
        """
        if x.constant is not None:
            return replace(x, dtype=DType.INT32, constant=wrapped(self, x, x.constant, size))
        x = narrow(x)
        self.require(
            x.dtype is DType.INT32,
            Reason.DTYPE,
            f"{x.name} is {x.dtype.name}, not a tensor of indexes",
        )
        negative = yield from self.compute(spec.LESS, x, self.scalar(0, x), dtype=DType.BOOL)
        counted = yield from self.added(x, size)
        out = self.temp(x)
        yield apply(spec.SELECT, negative, counted, x, out=out)
        return out

    def recast(self, x: Value, dtype: DType) -> Value:
        """Return the constant `x` as another element type; raise Reject(CONSTANT) unless exact."""
        if x.dtype is dtype or x.constant is None:
            return x
        array = x.constant.array
        fits = bool(np.array_equal(array.astype(dtype.numpy).astype(array.dtype), array))
        self.require(fits, Reason.CONSTANT, f"{x.name} has numbers that {dtype.name} does not hold")
        return replace(x, dtype=dtype, constant=x.constant.cast(dtype))

    def added(self, x: Value, number: int) -> Computed:
        """Return INT32 `x` plus a number.

        Where the level has no INT32 ADD, it is computed in float32: results must be within
        [-2^24, 2^24].
        """
        out = self.temp(x)
        call = apply(spec.ADD, x, self.scalar(number, x), out=out)
        if self.supports(call) or abs(number) >= EXACT_IN_FLOAT:
            yield call
            return out
        real = yield from self.compute(spec.CAST, x, dtype=DType.FLOAT)
        moved = yield from self.compute(spec.ADD, real, self.scalar(number, real))
        yield apply(spec.CAST, moved, out=out)
        return out

    def absolute(self, x: Value, y: Value) -> Iterator[Call]:
        """Emit `y` = |x|; where the level has no ABS, RELU(x) + RELU(-x), with the same result."""
        call = apply(spec.ABS, x, out=y)
        if self.supports(call) or x.dtype is DType.INT32:
            yield call
            return
        above = yield from self.compute(spec.RELU, x)
        below = yield from self.compute(spec.MUL, x, self.scalar(-1, x), activation=FuseCode.RELU)
        yield apply(spec.ADD, above, below, out=y)

    def absolute_of(self, x: Value) -> Computed:
        """Return |x|."""
        out = self.temp(x)
        yield from self.absolute(x, out)
        return out

    def negative(self, x: Value, y: Value) -> Iterator[Call]:
        """Emit `y` = -x; where the level has no NEG, x times -1, with the same result."""
        call = apply(spec.NEG, x, out=y)
        yield call if self.supports(call) else apply(spec.MUL, x, self.scalar(-1, x), out=y)

    def negative_of(self, x: Value) -> Computed:
        """Return -x."""
        out = self.temp(x)
        yield from self.negative(x, out)
        return out

    def signed_like(self, size: Value, sign: Value, y: Value) -> Iterator[Call]:
        """Emit `y` = `size`, negated where `sign` is negative."""
        below = yield from self.negative_of(size)
        minus = yield from self.compute(spec.LESS, sign, self.scalar(0, sign), dtype=DType.BOOL)
        yield apply(spec.SELECT, minus, below, size, out=y)

    def mirrored_indices(self, places: Value, size: int, y: Value) -> Iterator[Call]:
        """Emit `y` = size - 1 - `places`, of type INT32 or float."""
        if is_symbolic((size,)):
            counted = y if y.dtype is places.dtype else self.temp(places)
            yield apply(spec.SUB, self.scalar(size - 1, places), places, out=counted)
            if counted is not y:
                yield apply(spec.CAST, counted, out=y)
            return
        down = Constant.of(np.arange(size, dtype=y.dtype.numpy)[::-1])
        yield apply(spec.GATHER, down, axis=0, indices=places, out=y)


def each(steps: Iterable[Computed]) -> Generator[Call, None, list[Value]]:
    """Run the steps in order and return the list of their results."""
    found = []
    for step in steps:
        found.append((yield from step))
    return found


def _expanded_dims(n: Node, x: Value, y: Value) -> list[Call]:
    """Return EXPAND_DIMS calls from `x` to `y` if `y` only has more axes of size 1; else []."""
    added = _added_axes(operand_shape(x.shape), operand_shape(y.shape))
    calls: list[Call] = []
    for axis in added:
        before = calls[-1].outputs[0] if calls else x
        if not isinstance(before, Value):
            return []
        sizes = operand_shape(before.shape)
        out = y if axis == added[-1] else n.temp(x, (*sizes[:axis], 1, *sizes[axis:]))
        calls.append(apply(spec.EXPAND_DIMS, before, axis=axis, out=out))
    return calls


def _added_axes(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return the axes of size 1 that turn `before` into `after`; [] if these do not suffice."""
    rest, added = list(before), []
    for axis, size in enumerate(after):
        if rest and rest[0] == size:
            rest.pop(0)
        elif size == 1:
            added.append(axis)
        else:
            return []
    return added if not rest else []


def narrow(value: Value) -> Value:
    """Return an INT64 value, whose numbers must fit 32 bits, as INT32, as NNAPI stores it."""
    return replace(value, dtype=DType.INT32) if value.dtype is DType.INT64 else value


def wrapped(n: Node, x: Value, constant: Constant, size: int) -> Constant:
    """Return constant indexes into a dimension of `size` as non-negative; reject others."""
    numbers = constant.numbers
    if not numbers and is_symbolic((size,)) and (constant.load() < 0).any():
        numbers = constant.integers
    if numbers:
        wrapped = [number + size if number < 0 else number for number in numbers]
        inside = all(0 <= number < size for number in wrapped)
        n.require(inside, Reason.CONSTANT, f"{x.name} has an index outside a dimension of {size}")
        return Constant.of_sizes(wrapped, constant.shape, DType.INT32)
    array = constant.array
    inside = array.size == 0 or (int(array.min()) >= -size and int(array.max()) < size)
    n.require(inside, Reason.CONSTANT, f"{x.name} has an index outside a dimension of {size}")
    return Constant.of(np.where(array < 0, array + now(size), array).astype(np.int32))


def widened(lower: Lowering) -> Lowering:
    """Return `lower` wrapped so that float16 nodes are computed in float32 between casts.

    For lowerings of several steps, which would lose precision or overflow in float16.
    """

    @wraps(lower)
    def wide(n: Node) -> Iterator[Call]:
        halves = any(v is not None and v.dtype is DType.FLOAT16 for v in n.node.inputs)
        if not halves:
            yield from lower(n)
            return
        inputs = []
        for x in n.node.inputs:
            inputs.append((yield from _wide(n, x)))
        outputs = [
            n.temp(y, dtype=DType.FLOAT) if y is not None and y.dtype is DType.FLOAT16 else y
            for y in n.node.outputs
        ]
        inner = replace(n.node, inputs=tuple(inputs), outputs=tuple(outputs))
        yield from lower(replace(n, node=inner))
        for y, result in zip(n.node.outputs, outputs, strict=True):
            if y is not None and result is not None and y.dtype is not result.dtype:
                yield apply(spec.CAST, result, out=y)

    return wide


def _wide(n: Node, x: Value | None) -> Generator[Call, None, Value | None]:
    if x is None or x.dtype is not DType.FLOAT16:
        return x
    if x.constant is not None:
        return replace(x, dtype=DType.FLOAT, constant=x.constant.cast(DType.FLOAT))
    return (yield from n.compute(spec.CAST, x, dtype=DType.FLOAT))


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast; raise Reject(SHAPE) if they do not.

    >>> broadcast_shape((4, 1), (3,))
    (4, 3)
    """
    try:
        return broadcast(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise Reject(Reason.SHAPE, f"shapes {listed} do not broadcast") from None


Lowering = Callable[[Node], Iterator[Call]]


@frozen
class Operator:
    """One ONNX operator from schema version `since` on.

    There is no separate capability check: a node is supported if `lower` raises no Reject.

    equivalent   the operator that nodes of this one are rewritten to before they are lowered
    keeps        True if the calls, even a single one, lack what a device with the operator can use:
                 a form of its constants, or what it makes of NaN and infinities
    moves        True if it only moves elements: inputs and outputs have one scale and zero point
    function     True if it computes a function of each element, mostly with exp
    """

    op_type: str
    domain: str
    since: int
    lower: Lowering
    doc: str
    equivalent: str = ""
    keeps: bool = False
    moves: bool = False
    function: bool = False


def op(
    op_type: str,
    *,
    since: int,
    domain: str = "",
    keeps: bool = False,
    moves: bool = False,
    function: bool = False,
) -> Callable[[Lowering], Operator]:
    """Return a decorator that declares a generator as the lowering of an operator."""

    def declare(lower: Lowering) -> Operator:
        doc = lower.__doc__ or ""
        return Operator(op_type, domain, since, lower, doc, "", keeps, moves, function)

    return declare


def one_to_one(op_type: str, row: OperationSpec, since: int, *, function: bool = False) -> Operator:
    """Return an operator that lowers to one NNAPI operation on its inputs, in order."""

    def lower(n: Node) -> Iterator[Call]:
        yield apply(row, *n.inputs, out=n.output())

    return Operator(op_type, "", since, lower, f"{row.name} of the inputs.", function=function)


def ops_of(module: ModuleType) -> tuple[Operator, ...]:
    """Return all operators that a module declares, in the order of the file, with their sources."""
    found: list[Operator] = []
    for declared in vars(module).values():
        if isinstance(declared, Operator):
            found.append(declared)
        elif isinstance(declared, tuple):
            found.extend(o for o in declared if isinstance(o, Operator))
    return tuple(
        replace(o, doc=f"{o.doc}\n\nSource: {o.domain or 'ONNX'} {o.op_type}-{o.since} and later.")
        for o in found
    )


def int32(numbers: Sequence[int]) -> Constant:
    """Return a constant TENSOR_INT32 of rank 1 (shapes, axes, permutations).

    Raises Reject(SIZE) if a number does not fit 32 bits.
    """
    beyond = [i for i in numbers if not -(2**31) <= at_present(i) < 2**31]
    if beyond:
        raise Reject(Reason.SIZE, f"{beyond[0]} does not fit INT32")
    return Constant.of_sizes(numbers, (len(numbers),), DType.INT32)


def zeros(count_: int, dtype: DType = DType.FLOAT) -> Constant:
    """Return a constant of zeros of rank 1 (for an omitted bias)."""
    return Constant((count_,), dtype, lambda: np.zeros(count_, dtype.numpy))
