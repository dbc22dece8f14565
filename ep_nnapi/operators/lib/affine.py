"""Lowering of Gemm (alpha a b + beta c) to a fully connected layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, View, apply
from ep_nnapi.nnapi.spec import ADD, MUL
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.matrix_product import (
    MATRIX_TRANSPOSE,
    scaled_constant,
    write_fully_connected,
)
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.quantizing import bias


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
        yield apply(MUL, total, n.scalar(alpha, y), out=y)
        return
    if not inside:
        total = yield from compute(n, MUL, total, n.scalar(alpha, y))
    c = n.input(2)
    if c.constant is None and beta != 1:
        c = yield from compute(n, MUL, c, n.scalar(beta, y))
    yield apply(ADD, total, scaled_constant(n, c, beta), out=y)


def _row(n: Node, y: Value, beta: float) -> Value | None:
    """Bias [columns] of the layer; None when c cannot be one (other shape, or not constant)."""
    columns = y.shape[1]
    if not n.has(2) or beta == 0:
        return bias(n.input(0), n.input(1), None, columns)
    c = n.input(2)
    if c.constant is None:
        return c if beta == 1 and c.shape == (columns,) else None
    if c.size == 1 and c.quantization is None:
        wide = c.constant.map((columns,), lambda a: np.broadcast_to(a.reshape(1), (columns,)))
        return scaled_constant(n, replace(c, dims=(columns,), constant=wide), beta)
    if c.size != columns or c.shape[-1] != columns:
        return None
    q = c.quantization
    if q is not None and not q.per_tensor:
        q = replace(q, axis=0)
    row = replace(c, dims=(columns,), constant=c.constant.reshaped((columns,)), quantization=q)
    return scaled_constant(n, row, beta)
