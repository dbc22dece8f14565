"""Products of matrices."""

from __future__ import annotations

from ep_nnapi.litert.lowering.convolution import bias, weights_are_signed
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.operation import BINARY, row
from ep_nnapi.ort_devices.scope import is_coded


def fully_connected(op: FlatOp) -> None:
    """Rows times weights [units, size], plus bias. Source: NDK ANEURALNETWORKS_FULLY_CONNECTED."""
    signed = is_coded(op.operand("input")) and weights_are_signed(op, "weights")
    names = [op.tensor(name, signed=signed) for name in ("input", "weights")]
    fields = {"fusedActivationFunction": op.number("activation")}
    inputs = [*names, bias(op, "weights", signed=signed)]
    out = [op.out(signed=signed)]
    op.graph.operator("FULLY_CONNECTED", inputs, out, ("FullyConnected", fields))


def batch_matmul(op: FlatOp) -> None:
    """Products of matrices of two batches. Source: NDK ANEURALNETWORKS_BATCH_MATMUL."""
    flags = {name: bool(op.scalar(name, default=False)) for name in ("adj_x", "adj_y")}
    op.run("BATCH_MATMUL", BINARY, "BatchMatMul", adjX=flags["adj_x"], adjY=flags["adj_y"])


ROWS = (
    row(spec.FULLY_CONNECTED, fully_connected, F32, Q8, Q8S),
    row(spec.BATCH_MATMUL, batch_matmul, F32, Q8S),
)
