"""Operators whose results, or the masks for them, are known at compile time.

Results are stored as constants of the NNAPI model and copied to the output at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value, only_element, operand_shape
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import is_symbolic, now
from ep_nnapi.operators.lib.matmul import product
from ep_nnapi.operators.lib.movement import expanded, positions, sizes_around, transposed
from ep_nnapi.operators.lib.node import Computed, Node, each, narrow, op


def folded_outputs(n: Node) -> Iterator[Call]:
    """Emit the outputs of a constant-folded node as copies of constants.

    An output without elements needs no operation: the nodes that read it are folded as well.
    """
    for i, y in enumerate(n.node.outputs):
        if y is not None and y.constant is not None and 0 not in y.constant.shape:
            yield from _copy_constant(n, y.constant, i)


def _copy_constant(n: Node, given: Constant, output: int = 0) -> Iterator[Call]:
    """Emit output number `output` as a copy of `given`; raise Reject(DTYPE) if it does not fit."""
    y = replace(narrow(n.output(output)), constant=None)
    array = given.load()
    fits = bool(np.array_equal(array.astype(y.dtype.numpy), array))
    n.require(fits, Reason.DTYPE, f"{y.name} has numbers that {y.dtype.name} does not hold")
    stored = n.value("numbers", given.cast(y.dtype).reshaped(y.shape or (1,)))
    yield from n.reshape(replace(stored, quantization=y.quantization), y)


@op("Shape", since=1)
def shape(n: Node) -> Iterator[Call]:
    """The sizes of x from axis `start` (default 0) to `end` (default: all)."""
    sizes = n.input(0).shape
    start, end = n.integer("start", 0), n.integer("end", len(sizes))
    yield from _copy_constant(n, _sizes(sizes[start:end]))


def _sizes(sizes: Sequence[int]) -> Constant:
    return Constant.of_sizes(sizes, (len(sizes),), DType.INT64)


@op("Size", since=1)
def size(n: Node) -> Iterator[Call]:
    """The number of elements of x."""
    yield from _copy_constant(n, _sizes([n.input(0).size]))


@op("EyeLike", since=9)
def eye_like(n: Node) -> Iterator[Call]:
    """A matrix as large as x, with ones along its `k`-th diagonal."""
    y, (rows, columns) = narrow(n.output()), n.input(0).shape
    if is_symbolic((rows, columns)):
        ones = yield from _where_columns(n, spec.EQUAL, rows, columns, n.integer("k", 0))
        yield from n.reshape(ones, y) if y.dtype is DType.BOOL else n.number_into(ones, y)
        return
    k = max(-rows, min(n.integer("k", 0), columns))
    to = y.dtype.numpy
    matrix = Constant((rows, columns), y.dtype, lambda: np.eye(rows, columns, k, to))
    yield from n.reshape(n.value("numbers", matrix), y)


@op("Range", since=11)
def numbers(n: Node) -> Iterator[Call]:
    """The numbers from `start` to `limit` (exclusive) in steps of `delta`: all constant.

    Where sizes are symbols they are cut out of a constant table.
    """
    count = n.output().size
    if is_symbolic((count, *n.constant(0).numbers)):
        first, step = n.integer_at(0), n.integer_at(2)
        y = replace(narrow(n.output()), constant=None)
        in_table = step == 1 and first >= 0
        found = yield from positions(n, count, first if in_table else 0)
        if step != 1:
            found = yield from n.compute(spec.MUL, found, n.scalar(step, found))
        if not in_table:
            found = yield from n.added(found, first)
        yield from n.reshape(found, y)
        return
    start, _, delta = (n.array(i).reshape(()) for i in range(3))
    yield from _copy_constant(n, Constant.of(start + np.arange(count, dtype=start.dtype) * delta))


def _where_columns(
    n: Node, compared: OperationSpec, rows: int, columns: int, diagonal: int
) -> Computed:
    """Return where a matrix of symbolic sizes is on or beside its diagonal, as booleans."""
    down = yield from positions(n, rows)
    down = yield from n.reshaped((yield from n.added(down, diagonal)), (rows, 1))
    along = yield from n.reshaped((yield from positions(n, columns)), (1, columns))
    return (yield from n.compute(compared, along, down, dtype=DType.BOOL))


@op("ConstantOfShape", since=9)
def constant_of_shape(n: Node) -> Iterator[Call]:
    """A uniform tensor of `value` (default: 0 as a float) in the inferred shape."""
    y, given = narrow(n.output()), n.node.attributes.get("value")
    number = only_element(given, "value") if isinstance(given, Constant) else 0.0
    yield from n.reshape((yield from n.full(number, y.shape, y.dtype)), y)


MAX_CUM_SUM_SIZE = 1024
"""Longest axis of CumSum, which is lowered to a product with a matrix (of 4 MB then)."""


@op("Trilu", since=14)
def trilu(n: Node) -> Iterator[Call]:
    """The upper (or lower) triangle of each matrix from its k-th diagonal, else 0."""
    x, y, upper = n.input(0), n.output(), n.integer("upper", 1)
    shape, sizes = x.shape, operand_shape(x.shape)
    diagonal = n.integer_at(1) if n.has(1) else 0
    rows, columns = shape[-2:]
    if is_symbolic((rows, columns, diagonal)):
        compared = spec.GREATER_EQUAL if upper else spec.LESS_EQUAL
        kept = yield from _where_columns(n, compared, rows, columns, diagonal)
        yield from _where(n, (yield from expanded(n, kept, shape)), x, y)
        return
    least, most = (diagonal, columns - 1) if upper else (1 - rows, diagonal)
    if least <= 1 - rows and most >= columns - 1:
        yield from n.reshape(x, y)
        return
    if least > columns - 1 or most < 1 - rows:
        yield from n.reshape((yield from n.full(0, shape, x.dtype)), y)
        return

    def triangle() -> np.ndarray:
        ones = np.ones(shape[-2:], np.bool_)
        kept = np.triu(ones, diagonal) if upper else np.tril(ones, diagonal)
        return np.broadcast_to(kept, shape).reshape(sizes)

    yield from _where(n, n.value("triangle", Constant(sizes, DType.BOOL, triangle)), x, y)


def _where(n: Node, mask: Value, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `x` where the mask is true, else 0."""
    if x.dtype is DType.BOOL:
        yield apply(spec.LOGICAL_AND, x, mask, out=y)
        return
    zero = yield from n.full(0, x.shape, x.dtype)
    yield apply(spec.SELECT, mask, x, zero, out=y)


@op("CumSum", since=11, keeps=True)
def cum_sum(n: Node) -> Iterator[Call]:
    """Cumulative sums along the constant `axis`: a product with a matrix of ones and zeros.

    For finite numbers only: infinity times the matrix's zeros is NaN.
    """
    x, y = n.input(0), n.output()
    axis = n.normalized(n.integer_at(1), x.rank)
    before, size, after = sizes_around(x.shape, axis)
    n.require(
        size <= MAX_CUM_SUM_SIZE,
        Reason.SIZE,
        f"{x.name} has {size} elements along the axis; at most {MAX_CUM_SUM_SIZE} are supported",
    )
    exclusive, backward = n.integer("exclusive", 0), n.integer("reverse", 0)
    matrix = n.value("ones", _summing(now(size), x.dtype, bool(exclusive), bool(backward)))
    if is_symbolic((size,)):
        shift = (1 if exclusive else 0) * (1 if backward else -1)
        compared = spec.GREATER_EQUAL if backward else spec.LESS_EQUAL
        holds = yield from _where_columns(n, compared, size, size, shift)
        matrix = yield from n.as_number(holds, x.dtype)
    rows = yield from n.reshaped(x, (before, size, after))
    swap = (0, 2, 1) if after > 1 else (0, 1, 2)
    rows = yield from transposed(n, rows, swap)
    flat = yield from n.reshaped(rows, (before * after, size))
    sums = n.temp(y, (before * after, size))
    yield from product(n, flat, matrix, sums, adj_y=True)
    result = yield from n.reshaped(sums, (before, after, size))
    yield from n.reshape((yield from transposed(n, result, swap)), y)


def _summing(size: int, dtype: DType, exclusive: bool, backward: bool) -> Constant:
    """Return the matrix whose row i has a 1 for each element that the i-th sum includes."""
    shift = 1 if exclusive else 0

    def ones() -> np.ndarray:
        all_ones = np.ones((size, size), dtype.numpy)
        return np.triu(all_ones, shift) if backward else np.tril(all_ones, -shift)

    return Constant((size, size), dtype, ones)


@op("Hardmax", since=1)
def hardmax_1(n: Node) -> Iterator[Call]:
    """1 at the first greatest of all from `axis` (default 1) on, else 0."""
    x, axis = n.input(0), n.axis(default=1)
    yield from _hardmax(n, (prod(x.shape[:axis]), prod(x.shape[axis:]), 1))


@op("Hardmax", since=13)
def hardmax_13(n: Node) -> Iterator[Call]:
    """1 at the first greatest along the one `axis` (default: the last), else 0."""
    yield from _hardmax(n, sizes_around(n.input(0).shape, n.axis(default=-1)))


def _hardmax(n: Node, shape: tuple[int, int, int]) -> Iterator[Call]:
    x, y = n.input(0), n.output()
    before, size, after = shape
    seen = yield from n.reshaped(x, shape)
    first = yield from n.compute(
        spec.ARGMAX, seen, axis=1, shape=(before, after), dtype=DType.INT32
    )
    wide = yield from n.compute(spec.EXPAND_DIMS, first, axis=1, shape=(before, 1, after))
    places = Constant.of(np.arange(size, dtype=np.int32).reshape(size, 1))
    here = yield from n.compute(spec.EQUAL, wide, places, shape=shape, dtype=DType.BOOL)
    one, zero = yield from each(n.full(number, shape, x.dtype) for number in (1, 0))
    yield from n.compute_as(y, shape, spec.SELECT, here, one, zero)


@op("OneHot", since=9)
def one_hot(n: Node) -> Iterator[Call]:
    """A new `axis` of constant `depth`: the second of `values` at the index, else the first.

    Indexes must be INT32: out-of-range INT64 indexes, which set nothing, may wrap in 32 bits.
    """
    index, y = n.input(0), narrow(n.output())
    depth, axis = n.integer_at(1), n.integer("axis", -1)
    at = n.normalized(axis, y.rank)
    n.require(
        index.dtype is DType.INT32, Reason.DTYPE, f"{index.name} is {index.dtype.name}; use INT32"
    )
    n.require(y.rank <= MAX_RANK, Reason.RANK, f"{y.name} has rank {y.rank}; EQUAL takes 1-4")
    pair = n.recast(n.input(2), y.dtype)
    off, on = (_everywhere(n, pair, i, y.shape) for i in (0, 1))
    counted = yield from n.indices(index, depth)
    shape = tuple(1 if i == at else size for i, size in enumerate(y.shape))
    wide = yield from n.compute(spec.EXPAND_DIMS, counted, axis=at, shape=shape)
    places = np.arange(depth, dtype=np.int32).reshape([-1 if i == at else 1 for i in range(y.rank)])
    here = yield from n.compute(
        spec.EQUAL, wide, Constant.of(places), shape=y.shape, dtype=DType.BOOL
    )
    yield apply(spec.SELECT, here, on, off, out=y)


def _everywhere(n: Node, pair: Value, which: int, shape: tuple[int, ...]) -> Value:
    """Return element `which` of the constant `pair` as a uniform tensor of `shape`."""
    n.require(pair.constant is not None, Reason.CONSTANT, f"{pair.name} must be constant")
    wide = pair.constant and pair.constant.map(shape, lambda a: np.broadcast_to(a[which], shape))
    return replace(pair, dims=shape, constant=wide)
