"""Normalizations and softmax."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.sizes import now
from ep_nnapi.nnapi.spec import DATA, F16, F32
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import Op, row
from ep_nnapi.ort_devices.scope import TO_NCHW, Scope, identity, is_coded

_FEW = 400
"""Elements up to which QLinearSoftmax is faster, by a microsecond, than the nodes it stands for."""


def _softmax(op_type: str, op: Op) -> None:
    """Softmax of beta * x along an axis, or its logarithm."""
    axis = op.axis("axis", len(op.shape("input")), -1)
    beta = float(op.scalar("beta"))
    require(op_type == "LogSoftmax" or beta > 0, "beta is not positive")
    value = unshifted(op.scope, op.index("input")) if op.kernels.fused else op.real("input")
    if beta != 1:
        value = op.node("Mul", value, op.array(beta))
    op.deliver(op.node(op_type, value, axis=axis))


def unshifted(scope: Scope, index: int) -> str:
    """Real numbers, of a large quantized operand without subtracting the zero point.

    That changes no softmax, and keeps ONNX Runtime from fusing DequantizeLinear, Softmax and
    QuantizeLinear into QLinearSoftmax, which takes up to four times as long as all of them.
    """
    operand = scope.operand(index)
    if not is_coded(operand) or now(prod(scope.shape(index))) <= _FEW:
        return scope.value(index, real=True)
    stored = scope.graph.node("Cast", scope.value(index, real=False), to=TensorProto.FLOAT)
    return scope.graph.node("Mul", stored, scope.quantization(operand)[0])


def local_response_normalization(op: Op) -> None:
    """Computes x * (bias + alpha * (sum of squares within `radius`)) ** -beta.

    ONNX divides alpha by the size of the window. Its window runs along the second axis.
    """
    rank = len(op.shape("input"))
    axis = op.axis("axis", rank, -1)
    require(rank == 4, f"it normalizes a tensor of rank {rank}")
    alpha, beta, bias = (float(op.scalar(name)) for name in ("alpha", "beta", "bias"))
    usual = op.number("radius") >= 0 and alpha > 0 and beta > 0 and bias >= 0
    require(usual, "ONNX Runtime has no kernel for its numbers")
    others = [i for i in range(rank) if i != axis]
    layout = (others[0], axis, *others[1:])
    size = 2 * op.number("radius") + 1
    value = op.node(
        "LRN",
        op.real("input", layout),
        size=size,
        alpha=alpha * size,
        beta=beta,
        bias=bias,
    )
    op.deliver(value, layout)


def instance_normalization(op: Op) -> None:
    """Normalizes each channel of each image to mean beta and standard deviation gamma."""
    layout = identity(4) if op.scalar("layout") else TO_NCHW
    channels = int(op.shape("input")[1 if op.scalar("layout") else 3])
    gamma, beta = (np.full(channels, op.scalar(name)) for name in ("gamma", "beta"))
    value = op.node(
        "InstanceNormalization",
        op.real("input", layout),
        op.array(gamma),
        op.array(beta),
        epsilon=float(op.scalar("epsilon")),
    )
    op.deliver(value, layout)


ROWS = (
    row(spec.SOFTMAX, partial(_softmax, "Softmax"), *DATA),
    row(spec.LOG_SOFTMAX, partial(_softmax, "LogSoftmax"), F32, F16),
    row(spec.LOCAL_RESPONSE_NORMALIZATION, local_response_normalization, F32, F16),
    row(spec.INSTANCE_NORMALIZATION, instance_normalization, F32, F16),
)
