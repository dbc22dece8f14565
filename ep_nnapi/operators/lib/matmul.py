"""Lowering of matrix products and Gemm to FULLY_CONNECTED, CONV_2D or BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.arguments import View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import is_one, is_symbolic
from ep_nnapi.operators.lib.movement import equal_parts, expanded
from ep_nnapi.operators.lib.node import Node, broadcast_shape, each, int32
from ep_nnapi.operators.lib.quantizing import bias

MATRIX_TRANSPOSE = (1, 0)
MAX_BATCH_LAYERS = 64
"""Largest batch of matrices that is lowered to one FULLY_CONNECTED for each matrix."""


def product(
    n: Node, a: Value, b: Value, y: Value, *, adj_x: bool = False, adj_y: bool = False
) -> Iterator[Call]:
    """Emit `y` = `a` times `b`, matrices in the last two axes, transposed if `adj_x`, `adj_y`.

    a [..., M, K], b [..., K, N]; the axes before them broadcast
    """
    one_matrix = is_one(prod(b.shape[:-2])) and (a.rank == 2 or not adj_x)
    one_matrix = one_matrix and not is_symbolic(b.shape)  # a bias has one number for each unit
    if one_matrix and y.dtype is not DType.INT32:
        yield from _as_fully_connected(n, a, b, y, adj_x=adj_x, adj_y=adj_y)
        return
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    lhs, rhs = yield from each(expanded(n, x, (*batch, *x.shape[-2:])) for x in (a, b))
    shape = y.shape
    if len(batch) + 2 > MAX_RANK:
        shape, wide = (prod(batch), *y.shape[-2:]), (lhs, rhs)
        lhs, rhs = yield from each(n.reshaped(x, (prod(batch), *x.shape[-2:])) for x in wide)
    result = n.output_or_temp(y, shape)
    call = apply(spec.BATCH_MATMUL, lhs, rhs, adj_x=adj_x, adj_y=adj_y, out=result)
    whole = is_symbolic(y.shape) or prod(batch) > MAX_BATCH_LAYERS or y.dtype is DType.INT32
    if n.supports(call) or whole:
        yield call
        yield from n.write_output(result, y)
    else:
        yield from _fully_connected_by_matrix(n, lhs, rhs, y, adj_x=adj_x, adj_y=adj_y)


def _as_fully_connected(
    n: Node, a: Value, b: Value, y: Value, *, adj_x: bool, adj_y: bool
) -> Iterator[Call]:
    """Emit `y` = the rows of `a` after one fully connected layer with weights `b`."""
    depth, units = b.shape[-2:][:: -1 if adj_y else 1]
    matrix = yield from n.reshaped(b, b.shape[-2:])
    weights = matrix if adj_y else View(matrix, MATRIX_TRANSPOSE)
    if adj_x:
        rows: Value | View = View(a, MATRIX_TRANSPOSE)
    else:
        rows = yield from n.reshaped(a, (a.size // depth, depth))
    result = n.output_or_temp(y, (y.size // units, units))
    yield from write_fully_connected(n, rows, weights, bias(a, b, None, units), result)
    yield from n.write_output(result, y)


def write_fully_connected(
    n: Node, rows: Value | View, weights: Value | View, shift: Value, y: Value
) -> Iterator[Call]:
    """Emit `y` [M, units] = `rows` [M, K] times `weights` [units, K] transposed, plus `shift`.

    FULLY_CONNECTED takes only per-tensor weights; weights with a scale for each unit become the
    filter of a CONV_2D. Its pixels, not its images, are the rows: the pixels of an image are one
    product, and a product for each row takes several times as long. `shift` is [units].
    """
    matrix, perm = (weights.value, weights.perm) if isinstance(weights, View) else (weights, (0, 1))
    q = matrix.quantization
    if q is None or q.axis is None or matrix.constant is None or isinstance(rows, View):
        if shift.constant and shift.quantization is None and is_symbolic(shift.shape):  # zeros
            shift = yield from n.full(0, shift.shape, shift.dtype)
        yield from apply_fully_connected(n, rows, weights, shift, y)
        return
    detail = f"{matrix.name} has scales along its inputs; quantize it along its outputs"
    n.require(perm[0] == q.axis, Reason.QUANTIZATION, detail)
    (count, depth), units = rows.shape, y.shape[1]
    shape = (units, 1, 1, depth)
    taps = replace(
        matrix,
        dims=shape,
        constant=matrix.constant.transposed(perm).reshaped(shape),
        quantization=replace(q, axis=0),
    )
    pixels = yield from n.reshaped(rows, (1, count, 1, depth))
    result = n.temp(y, (1, count, 1, units))
    yield apply(
        spec.CONV_2D,
        pixels,
        filter=taps,
        bias=shift,
        padding=PaddingCode.VALID,
        stride_width=1,
        stride_height=1,
        out=result,
    )
    yield from n.reshape(result, y)


def apply_fully_connected(
    n: Node, rows: Value | View, weights: Value | View, shift: Value | Constant, y: Value
) -> Iterator[Call]:
    """Emit FULLY_CONNECTED; where Android has no kernel for square `rows`, with zeros behind each.

    rows [M, K], weights [units, K], shift [units], y [M, units]
    """
    layer = apply(spec.FULLY_CONNECTED, rows, weights=weights, bias=shift, out=y)
    level_1 = n.target.kernel_level == 1 and not is_symbolic((*rows.shape, *weights.shape))
    if level_1 and layer.is_supported(n.target.feature_level) and not n.supports(layer):
        rows = yield from _with_zeros(n, rows)
        weights = yield from _with_zeros(n, weights)
        layer = apply(spec.FULLY_CONNECTED, rows, weights=weights, bias=shift, out=y)
    yield layer


def _with_zeros(n: Node, x: Value | View) -> Generator[Call, None, Value]:
    """Return the matrix `x` with a column of zeros more."""
    value, perm = (x.value, x.perm) if isinstance(x, View) else (x, (0, 1))
    count, depth = x.shape
    if value.constant is not None:
        constant = value.constant.transposed(perm)
        padded = constant.map((count, depth + 1), lambda a: np.pad(a, ((0, 0), (0, 1))))
        return replace(value, dims=padded.shape, constant=padded)
    column = n.value("zeros", Constant.of(np.zeros((count, 1), value.dtype.numpy)))
    wider = n.temp(value, (count, depth + 1))
    yield apply(spec.CONCATENATION, inputs=[x, column], axis=1, out=wider)
    return wider


def _fully_connected_by_matrix(
    n: Node, a: Value, b: Value, y: Value, *, adj_x: bool, adj_y: bool
) -> Iterator[Call]:
    """Emit a fully connected layer for each matrix of the batch and concatenate the results."""
    lhs = yield from _matrices(n, a, swapped=adj_x)
    rhs = yield from _matrices(n, b, swapped=not adj_y)
    count, (rows, units) = len(lhs), y.shape[-2:]
    shift = bias(a, b, None, units)
    found = [n.temp(y, (rows, units)) for _ in range(count)]
    for left, right, part in zip(lhs, rhs, found, strict=True):
        yield from apply_fully_connected(n, left, right, shift, part)
    yield from n.compute_as(y, (count * rows, units), spec.CONCATENATION, inputs=found, axis=0)


def _matrices(n: Node, x: Value, *, swapped: bool) -> Generator[Call, None, list[Value]]:
    """Return the matrices of `x` as separate values, each transposed if `swapped`."""
    batch, (rows, columns) = prod(x.shape[:-2]), x.shape[-2:]
    seen = yield from n.reshaped(x, (batch, rows, columns))
    if swapped:
        rows, columns = columns, rows
        shape = (batch, rows, columns)
        seen = yield from n.compute(spec.TRANSPOSE, seen, perm=int32((0, 2, 1)), shape=shape)
    stack = yield from n.reshaped(seen, (batch * rows, columns))
    return (yield from equal_parts(n, stack, 0, batch))


def scaled_constant(n: Node, x: Value, factor: float) -> Value:
    """Return the constant `x` times `factor`, computed when read; `x` itself if not constant."""
    if factor == 1 or x.constant is None:
        return x
    n.require(x.quantization is None, Reason.ATTRIBUTE, f"{x.name} is quantized; use a factor of 1")
    scaled = x.constant.map(x.shape, lambda a: a * a.dtype.type(factor))
    return replace(x, constant=scaled)


def affine(n: Node, y: Value) -> Iterator[Call]:
    """Emit `y` = alpha a b + beta c of a Gemm node; alpha, beta fold into b and c if constant.

    a [M, K] (transA: [K, M]), b [K, N] (transB: [N, K]), c broadcast to [M, N]
    """
    a, b = n.input(0), n.input(1)
    alpha, beta = n.real("alpha", 1.0), n.real("beta", 1.0)
    rows = View(a, MATRIX_TRANSPOSE) if n.integer("transA", 0) else a
    inside = alpha == 1 or b.constant is not None
    matrix = scaled_constant(n, b, alpha) if inside else b
    weights = matrix if n.integer("transB", 0) else View(matrix, MATRIX_TRANSPOSE)
    row = _row(n, y, beta) if inside else None
    if row is not None:
        yield from write_fully_connected(n, rows, weights, bias(a, b, row, y.shape[1]), y)
        return
    total = n.temp(y)
    yield from write_fully_connected(n, rows, weights, bias(a, b, None, y.shape[1]), total)
    if not n.has(2) or beta == 0:
        yield apply(spec.MUL, total, n.scalar(alpha, y), out=y)
        return
    if not inside:
        total = yield from n.compute(spec.MUL, total, n.scalar(alpha, y))
    c = n.input(2)
    if c.constant is None and beta != 1:
        c = yield from n.compute(spec.MUL, c, n.scalar(beta, y))
    yield apply(spec.ADD, total, scaled_constant(n, c, beta), out=y)


def _row(n: Node, y: Value, beta: float) -> Value | None:
    """Bias [columns] of the layer; None when c cannot be one (other shape, or not constant)."""
    columns = y.shape[1]
    if not n.has(2) or beta == 0:
        return bias(n.input(0), n.input(1), None, columns)
    c = n.input(2)
    if c.constant is None:
        return c if beta == 1 and c.shape == (columns,) else None
    if c.size == 1 and c.quantization is None and not is_symbolic((columns,)):
        wide = c.constant.map((columns,), lambda a: np.broadcast_to(a.reshape(1), (columns,)))
        return scaled_constant(n, replace(c, dims=(columns,), constant=wide), beta)
    if c.size != columns or c.shape[-1] != columns:
        return None
    q = c.quantization
    if q is not None and not q.per_tensor:
        q = replace(q, axis=0)
    numbers = c.constant.reshaped((c.size,))  # sizes are those of zeros
    row = replace(c, dims=numbers.shape, constant=numbers, quantization=q)
    return scaled_constant(n, row, beta)
