"""MatMul and Gemm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import BATCH_MATMUL, FULLY_CONNECTED
from ep_nnapi.ops.lib.affine import affine
from ep_nnapi.ops.lib.emit import output_or_temp, reshaped, write_output
from ep_nnapi.ops.lib.matrix_product import product
from ep_nnapi.ops.lib.node import Node, op


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
    made = y if shape == y.shape else output_or_temp(n, y, shape)
    yield from product(n, left, right, made)
    yield from write_output(n, made, y)


@op("Gemm", since=7, emits=(FULLY_CONNECTED,))
def gemm(n: Node) -> Iterator[Call]:
    """Alpha a b + beta c as a fully connected layer; both factors in the constants where they can.

    a [M, K] (transA: [K, M]), b [K, N] (transB: [N, K]), c broadcast to [M, N]
    Source: ONNX Gemm-7, Gemm-9, Gemm-11, Gemm-13; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    yield from affine(n, n.output())
