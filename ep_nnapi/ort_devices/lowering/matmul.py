"""Matrix products."""

from __future__ import annotations

from math import prod

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.lowering.convolution import weights
from ep_nnapi.ort_devices.operation import Op, row


def _rows(op: Op, value: str) -> str:
    """The input as a matrix whose rows are multiplied by the weights."""
    shape, size = op.shape("input"), op.shape("weights")[1]
    if len(shape) == 2 and shape[1] == size:
        return value
    return op.reshape(value, (prod(shape) // size, size))


def fully_connected(op: Op) -> None:
    """Rows times weights [units, size], plus bias."""
    x, bias = _rows(op, op.real("input")), op.real("bias")
    if _is_transposed(op.operand("weights")):
        op.finish(op.node("Gemm", x, op.real("weights", (1, 0)), bias))
    else:
        op.finish(op.node("Gemm", x, op.real("weights"), bias, transB=1))


def _is_transposed(weights: Operand) -> bool:
    """True for constants that are in memory as ONNX's MatMul has them: they need not be copied."""
    value = weights.value
    if not isinstance(value, Data) or value.later:
        return False
    flags = weights.elements.flags
    return flags.f_contiguous and not flags.c_contiguous


def fully_connected_quantized(op: Op) -> None:
    """The same by ONNX Runtime's quantized product."""
    transposed = _is_transposed(op.operand("weights"))
    value = op.contrib(
        "QGemm",
        _rows(op, op.stored("input")),
        *op.scope.quantization(op.operand("input")),
        *weights(op, "weights", (1, 0) if transposed else (0, 1)),
        op.stored("bias"),
        *op.scope.quantization(op.operand("output")),
        transB=int(not transposed),
    )
    op.clamp(value)


def batch_matmul(op: Op) -> None:
    """Products of matrices of two batches."""
    sides = []
    for name, flag in (("input1", "adj_x"), ("input2", "adj_y")):
        rank = len(op.shape(name))
        perm = tuple(range(rank))
        if bool(op.scalar(flag, default=False)):
            perm = (*perm[:-2], rank - 1, rank - 2)
        sides.append(op.real(name, perm))
    op.deliver(op.node("MatMul", *sides))


ROWS = (
    row(spec.FULLY_CONNECTED, fully_connected, F32, F16),
    row(spec.FULLY_CONNECTED, fully_connected_quantized, Q8, Q8S),
    row(spec.BATCH_MATMUL, batch_matmul, F32, F16, I32, Q8S),
)
