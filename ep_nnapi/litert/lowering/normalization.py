"""Normalizations and softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ep_nnapi.litert.flat_operator import OptionValue
from ep_nnapi.litert.operation import DATA, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import row
from ep_nnapi.ort_devices.scope import Perm, inverse


def softmax(op: FlatOp) -> None:
    """Softmax of beta * x along an axis."""
    beta = float(op.scalar("beta"))
    require(beta > 0, "beta is not positive")
    _along_last(op, "SOFTMAX", beta=beta)


def log_softmax(op: FlatOp) -> None:
    """Logarithm of softmax of beta * x."""
    beta = float(op.scalar("beta"))
    x = op.tensor("input")
    if beta != 1.0:
        factor = op.graph.array(np.array([beta], np.float32))
        x = op.computed("MUL", [x, factor], op.graph.tensors[x])
    _along_last(op, "LOG_SOFTMAX", x)


def l2_normalization(op: FlatOp) -> None:
    """Divides by the L2 norm along an axis."""
    _along_last(op, "L2_NORMALIZATION")


def local_response_normalization(op: FlatOp) -> None:
    """Computes x * (bias + alpha * (sum of squares within `radius`)) ** -beta."""
    require(op.rank("input") == 4, "LiteRT normalizes tensors of rank 4 only")
    fields = {name: float(op.scalar(name)) for name in ("bias", "alpha", "beta")}
    operator = "LOCAL_RESPONSE_NORMALIZATION"
    _along_last(op, operator, radius=op.number("radius"), **fields)


def _along_last(
    op: FlatOp, operator: str, given: int | None = None, /, **fields: OptionValue
) -> None:
    """Add an operator along the operation's axis, moved to the end if it is not there.

    given   tensor in place of the operation's input
    """
    rank, signed = op.rank("input"), op.signed("input")
    axis = op.axis("axis", rank, -1)
    value = op.tensor("input", signed=signed) if given is None else given
    if axis == rank - 1:
        op.graph.operator(operator, [value], [op.out(signed=signed)], fields)
        return
    perm: Perm = (*(i for i in range(rank) if i != axis), axis)
    moved = op.graph.transposed(value, perm)
    result = op.described(signed=signed)
    wanted = replace(result, shape=tuple(result.shape[i] for i in perm))
    value = op.computed(operator, [moved], wanted, **fields)
    op.finish(op.graph.transposed(value, inverse(perm)), signed=signed)


def instance_normalization(op: FlatOp) -> None:
    """Normalizes each channel of each image to mean beta and standard deviation gamma."""
    x, whole = op.tensor("input"), op.described(signed=False)
    axes = (2, 3) if op.nchw else (1, 2)
    each = replace(whole, shape=tuple(1 if i in axes else n for i, n in enumerate(whole.shape)))
    reduced = op.graph.ints(axes)

    def constant(name: str) -> int:
        return op.graph.array(np.array([op.scalar(name)], np.float32))

    mean = op.computed("MEAN", [x, reduced], each, keepDims=True)
    centred = op.computed("SUB", [x, mean], whole)
    squares = op.computed("MUL", [centred, centred], whole)
    variance = op.computed("MEAN", [squares, reduced], each, keepDims=True)
    shifted = op.computed("ADD", [variance, constant("epsilon")], each)
    factor = op.computed("RSQRT", [shifted], each)
    scaled = op.computed("MUL", [factor, constant("gamma")], each)
    product = op.computed("MUL", [centred, scaled], whole)
    op.run("ADD", [product, constant("beta")])


ROWS = (
    row(spec.SOFTMAX, softmax, *DATA),
    row(spec.LOG_SOFTMAX, log_softmax, F32),
    row(spec.L2_NORMALIZATION, l2_normalization, *DATA),
    row(spec.LOCAL_RESPONSE_NORMALIZATION, local_response_normalization, F32),
    row(spec.INSTANCE_NORMALIZATION, instance_normalization, F32),
)
