"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.nnapi.call import Call, View
from ep_nnapi.nnapi.spec import FULLY_CONNECTED
from ep_nnapi.ops.node import Node, op, zeros
from ep_nnapi.rejection import Reason
from ep_nnapi.value import Value

_SWAPPED = (1, 0)


@op("Gemm", since=7, emits=(FULLY_CONNECTED,))
def gemm(n: Node) -> Iterator[Call]:
    """Y = a b + c as a fully connected layer; a [M, K], b [K, N] (transB: [N, K]), c [N].

    Source: ONNX Gemm-7, Gemm-9, Gemm-11, Gemm-13; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    for name in ("alpha", "beta"):
        factor = n.real(name, 1.0)
        n.require(factor == 1.0, Reason.ATTRIBUTE, f"{name} is {factor}; only 1 is taken")
    n.require(n.integer("transA", 0) == 0, Reason.ATTRIBUTE, "transA is 1; only 0 is taken")
    weights = b if n.integer("transB", 0) else View(b, _SWAPPED)
    yield FULLY_CONNECTED(a, weights=weights, bias=_bias(n, y.shape[1]), out=y)


def _bias(n: Node, columns: int) -> Value:
    if not n.has(2):
        zero = zeros(columns, n.input(0).dtype)
        return Value("bias", zero.dtype, zero.shape, constant=zero)
    c = n.input(2)
    n.require(
        c.size == columns == c.shape[-1],
        Reason.SHAPE,
        f"{c.name} has shape {list(c.shape)}, FULLY_CONNECTED.bias takes [{columns}]",
    )
    if c.rank == 1:
        return c
    return Value(c.name, c.dtype, (columns,), constant=n.constant(2).reshaped((columns,)))


@op("MatMul", since=1, emits=(FULLY_CONNECTED,))
def matmul(n: Node) -> Iterator[Call]:
    """A product with a constant matrix as a fully connected layer; a [M, K], b [K, N].

    Source: ONNX MatMul-1, MatMul-9, MatMul-13; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    n.require(
        a.rank == b.rank == 2,
        Reason.RANK,
        f"{a.name} has rank {a.rank} and {b.name} {b.rank}; FULLY_CONNECTED takes two matrices",
    )
    bias = zeros(b.shape[1], a.dtype)
    yield FULLY_CONNECTED(a, weights=View(b, _SWAPPED), bias=bias, out=y)
