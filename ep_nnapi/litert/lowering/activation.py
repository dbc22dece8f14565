"""Element-wise operations of one tensor."""

from __future__ import annotations

from ep_nnapi.litert.operation import FlatLowering, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import require


def _unary(operator: str, kind: str = "") -> FlatLowering:
    """Operations that one operator computes."""

    def lower(op: FlatOp) -> None:
        op.run(operator, ["input"], kind)

    return lower


def elu(op: FlatOp) -> None:
    """ELU; LiteRT's has no coefficient. Source: NDK ANEURALNETWORKS_ELU."""
    alpha = float(op.scalar("alpha"))
    require(alpha == 1.0, f"alpha is {alpha:g}, LiteRT's ELU has 1")
    op.run("ELU", ["input"])


_CODED = (Q8, Q8S)
ROWS = (
    row(spec.ABS, _unary("ABS", "Abs"), F32, I32),
    row(spec.EXP, _unary("EXP", "Exp"), F32),
    row(spec.FLOOR, _unary("FLOOR"), F32),
    row(spec.LOG, _unary("LOG"), F32),
    row(spec.LOGICAL_NOT, _unary("LOGICAL_NOT", "LogicalNot"), BOOL8),
    row(spec.LOGISTIC, _unary("LOGISTIC"), F32, *_CODED),
    row(spec.NEG, _unary("NEG", "Neg"), F32, I32),
    row(spec.RSQRT, _unary("RSQRT"), F32),
    row(spec.SIN, _unary("SIN"), F32),
    row(spec.SQRT, _unary("SQRT"), F32),
    row(spec.TANH, _unary("TANH"), F32, *_CODED),
    row(spec.ELU, elu, F32),
    row(spec.HARD_SWISH, _unary("HARD_SWISH", "HardSwish"), F32, *_CODED),
    row(spec.RELU, _unary("RELU"), F32, *_CODED),
    row(spec.RELU1, _unary("RELU_N1_TO_1"), F32, *_CODED),
    row(spec.RELU6, _unary("RELU6"), F32, *_CODED),
)
