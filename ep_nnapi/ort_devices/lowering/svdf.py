"""SVDF (singular value decomposition filter): filters of rank-1 factors, with memory."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.ort_devices.lowering.recurrent_cells import Cell
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row


def svdf(op: Op) -> None:
    """Weights each filter's recent results by time. Source: NDK ANEURALNETWORKS_SVDF.

    The state [batches, filters * memory] holds the results, oldest first. The new one is stored
    last, then all are shifted by one, which leaves zero in the last place.
    """
    filters, memory = op.shape("weights_time")
    batches = op.shape("input")[0]
    units, cell = op.number("rank"), Cell(op)
    results = op.node("Gemm", op.real("input"), op.real("weights_feature"), transB=1)
    new = op.reshape(results, (batches, filters, 1))
    before = op.reshape(op.real("state_in"), (batches, filters, memory))
    older = op.node("Slice", before, op.sizes([0]), op.sizes([memory - 1]), op.sizes([2]))
    latest = op.node("Concat", older, new, axis=2) if memory > 1 else new
    products = op.node("Mul", latest, op.real("weights_time"))
    sums = op.node("ReduceSum", products, op.sizes([2]), keepdims=0)
    split = op.reshape(sums, (batches, filters // units, units))
    total = op.node("ReduceSum", split, op.sizes([2]), keepdims=0)
    if op.given("bias"):
        total = op.node("Add", total, op.real("bias"))
    op.keep(cell.activated(total))
    zero = op.array(np.zeros((batches, filters, 1)))
    moved = op.node("Slice", latest, op.sizes([1]), op.sizes([memory]), op.sizes([2]))
    state = op.node("Concat", moved, zero, axis=2)
    op.keep(op.reshape(state, op.shape("state_in")), output="state_out")


ROWS = (row(spec.SVDF, svdf, F32, F16),)
