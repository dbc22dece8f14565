"""Element-wise operations of one tensor."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.host.kernels.fused_activation import activation_range
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import Lowering, row
from ep_nnapi.ort_devices.scope import is_coded

SIXTH = float(np.float32(1 / 6))
"""Slope of the hard sigmoids in NNAPI's models."""


def _unary(*op_types: str) -> Lowering:
    """Operations that ONNX operators without attributes compute one after another."""

    def lower(op: Op) -> None:
        perm = op.layout("input")
        value = op.real("input", perm)
        for op_type in op_types:
            value = op.node(op_type, value)
        op.deliver(value, perm)

    return lower


def _clip(activation: FuseCode) -> Lowering:
    """RELU, RELU1 and RELU6: a clip, of quantized tensors too after requantization."""

    def lower(op: Op) -> None:
        perm = op.layout("input")
        ends = [op.array(end) for end in activation_range(activation)]
        value = op.real("input", perm)
        relu = activation == FuseCode.RELU
        op.deliver(op.node("Relu", value) if relu else op.node("Clip", value, *ends), perm)

    return lower


def elu(op: Op) -> None:
    """ELU with coefficient alpha. Source: NDK ANEURALNETWORKS_ELU."""
    perm = op.layout("input")
    op.deliver(op.node("Elu", op.real("input", perm), alpha=float(op.scalar("alpha"))), perm)


def hard_swish(op: Op) -> None:
    """Computes x * clip(x + 3, 0, 6) / 6. Source: NDK ANEURALNETWORKS_HARD_SWISH."""
    perm = op.layout("input")
    x = op.real("input", perm)
    gate = op.node("HardSigmoid", x, alpha=SIXTH, beta=0.5)
    op.deliver(op.node("Mul", x, gate), perm)


def prelu(op: Op) -> None:
    """Negative numbers times alpha. Source: NDK ANEURALNETWORKS_PRELU.

    A single alpha is LeakyRelu's, which ONNX Runtime fuses into a convolution before it.
    """
    slope = op.operand("alpha")
    single = isinstance(slope.value, Data) and slope.size == 1
    if single and op.shape("output") == op.shape("input"):
        alpha = float(slope.item)
        if is_coded(slope):
            alpha = (alpha - slope.zero_point) * slope.scale
        perm = op.layout("input")
        op.deliver(op.node("LeakyRelu", op.real("input", perm), alpha=alpha), perm)
        return
    perm = op.layout("input", "alpha")
    op.deliver(op.node("PRelu", *(op.broadcast(name, perm) for name in ("input", "alpha"))), perm)


_DATA = (F32, F16, Q8, Q8S)
ROWS = (
    row(spec.ABS, _unary("Abs"), F32, F16, I32),
    row(spec.EXP, _unary("Exp"), F32, F16),
    row(spec.FLOOR, _unary("Floor"), F32, F16),
    row(spec.LOG, _unary("Log"), F32, F16),
    row(spec.LOGICAL_NOT, _unary("Not"), BOOL8),
    row(spec.LOGISTIC, _unary("Sigmoid"), *_DATA),
    row(spec.NEG, _unary("Neg"), F32, F16, I32),
    row(spec.RSQRT, _unary("Sqrt", "Reciprocal"), *_DATA),
    row(spec.SIN, _unary("Sin"), F32, F16),
    row(spec.SQRT, _unary("Sqrt"), F32, F16),
    row(spec.TANH, _unary("Tanh"), *_DATA),
    row(spec.ELU, elu, F32, F16),
    row(spec.HARD_SWISH, hard_swish, *_DATA),
    row(spec.PRELU, prelu, *_DATA),
    row(spec.RELU, _clip(FuseCode.RELU), *_DATA),
    row(spec.RELU1, _clip(FuseCode.RELU1), *_DATA),
    row(spec.RELU6, _clip(FuseCode.RELU6), *_DATA),
)
