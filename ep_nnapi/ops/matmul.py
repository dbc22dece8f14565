"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi.call import Call, View
from ep_nnapi.nnapi.spec import ADD, BATCH_MATMUL, FULLY_CONNECTED, MUL
from ep_nnapi.ops.node import Node, no_bias, op
from ep_nnapi.ops.products import SWAPPED, product
from ep_nnapi.ops.steps import compute, place, reshaped, settle
from ep_nnapi.rejection import Reason
from ep_nnapi.value import Value


@op("MatMul", since=1, emits=(FULLY_CONNECTED, BATCH_MATMUL))
def matmul(n: Node) -> Iterator[Call]:
    """Products of matrices in the last two dimensions, what is before broadcast.

    a [..., M, K] or [K], b [..., K, N] or [K]
    Source: ONNX MatMul-1, MatMul-9, MatMul-13; NDK ANEURALNETWORKS_FULLY_CONNECTED,
    ANEURALNETWORKS_BATCH_MATMUL.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2] if a.rank > 1 else 1
    columns = b.shape[-1] if b.rank > 1 else 1
    left = a if a.rank > 1 else (yield from reshaped(n, a, (1, a.size)))
    right = b if b.rank > 1 else (yield from reshaped(n, b, (b.size, 1)))
    shape = (*batch, rows, columns)
    made = y if shape == y.shape else place(n, y, shape)
    yield from product(n, left, right, made)
    yield from settle(n, made, y)


@op("Gemm", since=7, emits=(FULLY_CONNECTED,))
def gemm(n: Node) -> Iterator[Call]:
    """Alpha a b + beta c as a fully connected layer; both factors in the constants where they can.

    a [M, K] (transA: [K, M]), b [K, N] (transB: [N, K]), c broadcast to [M, N]
    Source: ONNX Gemm-7, Gemm-9, Gemm-11, Gemm-13; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    alpha, beta = n.real("alpha", 1.0), n.real("beta", 1.0)
    rows = View(a, SWAPPED) if n.integer("transA", 0) else a
    inside = alpha == 1 or b.constant is not None
    matrix = _times(n, b, alpha) if inside else b
    weights = matrix if n.integer("transB", 0) else View(matrix, SWAPPED)
    bias = _bias(n, y, beta) if inside else None
    if bias is not None:
        yield FULLY_CONNECTED(rows, weights=weights, bias=bias, out=y)
        return
    total = n.temp(y)
    zero = no_bias(a, b, y.shape[1])
    yield FULLY_CONNECTED(rows, weights=weights, bias=zero, out=total)
    if not n.has(2) or beta == 0:
        yield MUL(total, n.scalar(alpha, y), out=y)
        return
    if not inside:
        total = yield from compute(n, MUL, total, n.scalar(alpha, y))
    c = n.input(2)
    if c.constant is None and beta != 1:
        c = yield from compute(n, MUL, c, n.scalar(beta, y))
    yield ADD(total, _times(n, c, beta), out=y)


def _times(n: Node, x: Value, factor: float) -> Value:
    """The constant `x` times a number, lazily."""
    if factor == 1 or x.constant is None:
        return x
    n.require(x.quantization is None, Reason.ATTRIBUTE, f"{x.name} is quantized; use a factor of 1")
    scaled = x.constant.map(x.shape, lambda a: a * a.dtype.type(factor))
    return replace(x, constant=scaled)


def _bias(n: Node, y: Value, beta: float) -> Value | None:
    """The row that is added to each row; None when c is no such row, or has to be computed."""
    columns = y.shape[1]
    if not n.has(2) or beta == 0:
        return no_bias(n.input(0), n.input(1), columns)
    c = n.input(2)
    if c.constant is None:
        return c if beta == 1 and c.shape == (columns,) else None
    if c.size == 1 and c.quantization is None:
        wide = c.constant.map((columns,), lambda a: np.broadcast_to(a.reshape(1), (columns,)))
        return _times(n, replace(c, dims=(columns,), constant=wide), beta)
    if c.size != columns or c.shape[-1] != columns:
        return None
    return _times(n, replace(c, dims=(columns,), constant=c.constant.reshaped((columns,))), beta)
