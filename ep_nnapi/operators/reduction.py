"""Reduction operators (ReduceSum, ReduceMean, ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.value import MAX_RANK, DType, Value, operand_shape
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.movement import along, broadcast, sizes_around, sliced
from ep_nnapi.operators.lib.node import Computed, Node, Operator, widened
from ep_nnapi.operators.lib.reduction import reduce, reduced

LoweringOverAxes: TypeAlias = Callable[[Node, Value, Sequence[int], Value], Iterator[Call]]
"""`reduction(n, x, axes, y)` emits `y` = `x` reduced along `axes`."""


def variants(
    op_type: str,
    lowered: LoweringOverAxes,
    doc: str,
    *,
    axes_are_input: int = 18,
    widens: bool = False,
) -> Iterator[Operator]:
    """Return the operator's two variants: `axes` as an attribute, and as an input.

    axes_are_input   the schema version from which `axes` is an input, not an attribute
    widens           True if float16 is computed in float32
    """

    def by_attribute(n: Node) -> Iterator[Call]:
        rank = n.input(0).rank
        yield from _lower(n, lowered, n.integers("axes", range(rank)))

    def by_input(n: Node) -> Iterator[Call]:
        axes = n.integers_at(1) if n.has(1) else ()
        noop = n.integer("noop_with_empty_axes", 0)
        if not axes and not noop:
            axes = tuple(range(n.input(0).rank))
        yield from _lower(n, lowered, axes)

    for since, lower in ((1, by_attribute), (axes_are_input, by_input)):
        yield Operator(op_type, "", since, widened(lower) if widens else lower, doc)


def _lower(n: Node, lower: LoweringOverAxes, axes: Sequence[int]) -> Iterator[Call]:
    x, y = n.input(0), n.output()
    n.require_same_quantization(x, y)
    yield from lower(n, x, sorted({n.normalized(a, x.rank, "axes") for a in axes}), y)


def _keep_dims(n: Node) -> bool:
    return n.integer("keepdims", 1) == 1


def _lowered_by(
    row: OperationSpec, integers: OperationSpec | None = None, booleans: OperationSpec | None = None
) -> LoweringOverAxes:
    """Return the lowering to NNAPI reduction `row`, or `booleans` for BOOL.

    NNAPI reductions do not take INT32: with `integers`, halves of the axis are combined by that.
    """

    def lower(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
        if x.dtype is DType.INT32 and integers is not None:
            yield from _by_halves(n, integers, x, axes, y)
        else:
            own = booleans if x.dtype is DType.BOOL and booleans is not None else row
            yield from reduce(n, own, x, axes, y, keep=_keep_dims(n))

    return lower


def _by_halves(
    n: Node, row: OperationSpec, x: Value, axes: Sequence[int], y: Value
) -> Iterator[Call]:
    """Emit a tree reduction: the halves of an axis are combined by `row` until one is left."""
    for axis in axes:
        sizes = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
        shape, at = (x.shape, axis) if x.rank <= MAX_RANK else (sizes_around(x.shape, axis), 1)
        folded = yield from n.reshaped(x, shape)
        one = yield from _halved(n, row, folded, at)
        x = yield from n.reshaped(one, sizes)
    yield from n.reshape(x, y)


def _halved(n: Node, row: OperationSpec, x: Value, axis: int) -> Computed:
    odd = []
    while (size := x.shape[axis]) > 1:
        half = size // 2
        if size % 2:
            odd.append((yield from _part(n, x, axis, size - 1, 1)))
        first = yield from _part(n, x, axis, 0, half)
        second = yield from _part(n, x, axis, half, half)
        x = yield from n.compute(row, first, second)
    for part in odd:
        x = yield from n.compute(row, x, part)
    return x


def _part(n: Node, x: Value, axis: int, begin: int, size: int) -> Computed:
    spans = along(x.shape, axis, Span(begin, begin + size))
    return (yield from sliced(n, x, spans, [span.size for span in spans]))


_SUM = _lowered_by(spec.REDUCE_SUM, integers=spec.ADD)


def _sum(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit REDUCE_SUM; where the level lacks it, MEAN times the count, which rounds once more."""
    calls = list(_SUM(n, x, axes, y))
    if all(map(n.supports, calls)) or x.dtype is DType.INT32 or x.quantization is not None:
        yield from calls
        return
    mean = n.temp(y)
    yield from reduce(n, spec.MEAN, x, axes, mean, keep=_keep_dims(n))
    yield apply(spec.MUL, mean, n.scalar(prod(x.shape[a] for a in axes), x), out=y)


def _l1(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
    yield from _sum(n, (yield from n.absolute_of(x)), axes, y)


def _sum_square(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
    yield from _sum(n, (yield from n.compute(spec.MUL, x, x)), axes, y)


def _then(before: LoweringOverAxes, row: OperationSpec) -> LoweringOverAxes:
    """Return the lowering that applies `row` to the result of `before`."""

    def lower(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
        total = n.temp(y)
        yield from before(n, x, axes, total)
        yield apply(row, total, out=y)

    return lower


def _log_sum_exp(n: Node, x: Value, axes: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit log(sum(exp(x - m))) + m, with m the greatest element clipped to finite numbers."""
    greatest = yield from reduced(n, spec.REDUCE_MAX, x, axes)
    limit = float(n.limits(x).max)
    above = yield from n.compute(spec.MAXIMUM, greatest, n.scalar(-limit, x))
    finite = yield from n.compute(spec.MINIMUM, above, n.scalar(limit, x))
    less = n.temp(x)
    yield from broadcast(n, spec.SUB, (x, finite), less)
    total = n.temp(y)
    yield from _sum(n, (yield from n.compute(spec.EXP, less)), axes, total)
    log = yield from n.compute(spec.LOG, total)
    yield apply(spec.ADD, log, (yield from n.reshaped(finite, operand_shape(y.shape))), out=y)


_MAX = _lowered_by(spec.REDUCE_MAX, spec.MAXIMUM, spec.REDUCE_ANY)
_MIN = _lowered_by(spec.REDUCE_MIN, spec.MINIMUM, spec.REDUCE_ALL)
_L2, _LOG_SUM = _then(_sum_square, spec.SQRT), _then(_sum, spec.LOG)
TABLE = (
    *variants("ReduceMax", _MAX, "The greatest element; of booleans, whether any holds."),
    *variants("ReduceMin", _MIN, "The least element; of booleans, whether all hold."),
    *variants("ReduceMean", _lowered_by(spec.MEAN), "The mean."),
    *variants("ReduceProd", _lowered_by(spec.REDUCE_PROD, spec.MUL), "The product."),
    *variants("ReduceSum", _sum, "The sum.", axes_are_input=13),
    *variants("ReduceL1", _l1, "The sum of magnitudes.", widens=True),
    *variants("ReduceL2", _L2, "The root of the squares' sum.", widens=True),
    *variants("ReduceLogSum", _LOG_SUM, "The sum's logarithm.", widens=True),
    *variants("ReduceLogSumExp", _log_sum_exp, "The exponentials' sum's logarithm.", widens=True),
    *variants("ReduceSumSquare", _sum_square, "The sum of squares.", widens=True),
)
