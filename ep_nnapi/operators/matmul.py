"""MatMul and Gemm."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.affine import affine
from ep_nnapi.operators.lib.broadcast_shape import broadcast_shape
from ep_nnapi.operators.lib.emit import output_or_temp, reshaped, write_output
from ep_nnapi.operators.lib.matrix_product import product
from ep_nnapi.operators.lib.node import Node, op


@op("MatMul", since=1)
def matmul(n: Node) -> Iterator[Call]:
    """Products of matrices in the last two dimensions, what is before broadcast.

    a [..., M, K] or [K], b [..., K, N] or [K]
    Source: ONNX MatMul-1, MatMul-9, MatMul-13; NDK ANEURALNETWORKS_FULLY_CONNECTED,
    ANEURALNETWORKS_BATCH_MATMUL.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    n.require(min(a.rank, b.rank) > 0, Reason.RANK, f"{a.name} or {b.name} is a scalar")
    _require_equal_inner_sizes(n, a.shape[-1], b.shape[-2 if b.rank > 1 else 0])
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2] if a.rank > 1 else 1
    columns = b.shape[-1] if b.rank > 1 else 1
    left = a if a.rank > 1 else (yield from reshaped(n, a, (1, a.size)))
    right = b if b.rank > 1 else (yield from reshaped(n, b, (b.size, 1)))
    shape = (*batch, rows, columns)
    result = (*batch, *(rows,) * (a.rank > 1), *(columns,) * (b.rank > 1))
    n.require(
        y.shape == result,
        Reason.SHAPE,
        f"{y.name} is declared as {list(y.shape)}; the product has shape {list(result)}",
    )
    computed = y if shape == y.shape else output_or_temp(n, y, shape)
    yield from product(n, left, right, computed)
    yield from write_output(n, computed, y)


@op("Gemm", since=7)
def gemm(n: Node) -> Iterator[Call]:
    """Alpha a b + beta c as a fully connected layer; both factors in the constants where they can.

    a [M, K] (transA: [K, M]), b [K, N] (transB: [N, K]), c broadcast to [M, N]
    Source: ONNX Gemm-7, Gemm-9, Gemm-11, Gemm-13; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    _require_matrices(n)
    _require_bias_of_product(n)
    yield from affine(n, n.output())


def _require_matrices(n: Node) -> None:
    """Raise Reject unless a and b are matrices whose inner sizes agree."""
    a, b = n.input(0), n.input(1)
    for x in (a, b):
        n.require(x.rank == 2, Reason.RANK, f"{x.name} has rank {x.rank}; Gemm multiplies matrices")
    of_a, of_b = 0 if n.integer("transA", 0) else 1, 1 if n.integer("transB", 0) else 0
    _require_equal_inner_sizes(n, a.shape[of_a], b.shape[of_b])


def _require_bias_of_product(n: Node) -> None:
    """Raise Reject if c is larger than the product, which ONNX's shape inference does not check."""
    if not n.has(2):
        return
    c, y = n.input(2), n.output()
    detail = f"{c.name} {list(c.shape)} does not broadcast to {list(y.shape)}"
    n.require(broadcast_shape(c.shape, y.shape) == y.shape, Reason.SHAPE, detail)


def _require_equal_inner_sizes(n: Node, of_a: int, of_b: int) -> None:
    a, b = n.input(0).name, n.input(1).name
    n.require(
        of_a == of_b, Reason.SHAPE, f"the inner sizes of {a} and {b} differ: {of_a} and {of_b}"
    )
