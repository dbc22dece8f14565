"""Products of matrices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ep_nnapi.litert.lowering.convolution import bias, weights_are_signed
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import BINARY, row
from ep_nnapi.ort_devices.scope import Shape, is_coded


def fully_connected(op: FlatOp) -> None:
    """Rows times weights [units, size], plus bias."""
    signed = is_coded(op.operand("input")) and weights_are_signed(op, "weights")
    names = [op.tensor(name, signed=signed) for name in ("input", "weights")]
    fields = {"fusedActivationFunction": op.number("activation")}
    inputs = [*names, bias(op, "weights", signed=signed)]
    out = [op.out(signed=signed)]
    op.graph.operator("FULLY_CONNECTED", inputs, out, fields)


def batch_matmul(op: FlatOp) -> None:
    """Products of matrices of two batches."""
    flags = {name: bool(op.scalar(name, default=False)) for name in ("adj_x", "adj_y")}
    op.run("BATCH_MATMUL", BINARY, adjX=flags["adj_x"], adjY=flags["adj_y"])


def integer_matmul(op: FlatOp) -> None:
    """BATCH_MATMUL of int32: MUL of all pairs, which are in memory at once, then SUM.

    Raises Inexpressible for more than `_MOST_PRODUCTS` of them.
    """
    (x, first), (y, second) = (
        _factor(op, *each) for each in zip(BINARY, ("adj_x", "adj_y"), strict=True)
    )
    x = op.graph.reshaped(x, (*first, 1))
    y = op.graph.reshaped(y, (*second[:-2], 1, *second[-2:]))
    result = op.described(signed=False)
    every = (*result.shape[:-1], first[-1], result.shape[-1])
    require(prod(every) <= _MOST_PRODUCTS, f"{prod(every)} products of integers in memory")
    products = op.computed("MUL", [x, y], replace(result, shape=every))
    axis = op.graph.ints([len(every) - 2])
    op.run("SUM", [products, axis], keepDims=False)


def _factor(op: FlatOp, name: str, transposed: str) -> tuple[int, Shape]:
    """The tensor of a factor, transposed if it is to be, and its shape."""
    value, rank = op.tensor(name), op.rank(name)
    if op.scalar(transposed, default=False):
        value = op.graph.transposed(value, (*range(rank - 2), rank - 1, rank - 2))
    return value, op.graph.tensors[value].shape


_MOST_PRODUCTS = 1 << 24
ROWS = (
    row(spec.FULLY_CONNECTED, fully_connected, F32, Q8, Q8S),
    row(spec.BATCH_MATMUL, batch_matmul, F32, Q8S),
    row(spec.BATCH_MATMUL, integer_matmul, I32),
)
