"""LSTMs over sequences: one node, or step by step where a provider has no kernel for it."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.shapes.recurrent import (
    BIASES,
    INPUT,
    INPUT_GATE,
    NORM,
    ONNX_GATES,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
)
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import Op, row

_MOST_STEPS = 256
"""Steps that are unrolled at most: each adds some twenty nodes to the session."""
_ACTIVATIONS = {FuseCode.RELU: "Relu", 4: "Tanh", 6: "Sigmoid"}
"""ONNX operators by the codes of activations. Source: NDK ANEURALNETWORKS_LSTM, input 20."""


def unidirectional_sequence_lstm(op: Op) -> None:
    """LSTM over a sequence with constant weights; what ONNX's LSTM lacks is declined.

    Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM; ONNX LSTM-14.
    """
    _require_lstm_of_onnx(op)
    perm = None if op.scalar("time_major") else (1, 0, 2)
    first, second, size = op.shape("input")
    shape = (first, second, size) if perm is None else (second, first, size)
    compute = _one_node if op.kernels.fused else _unrolled
    outputs, *last = compute(op, op.real("input", perm), shape)
    op.keep(outputs, perm)
    for value, name in zip(last, ("output_state_out", "cell_state_out"), strict=True):
        if op.indexes(name):
            op.keep(op.reshape(value, op.shape(name)), output=name)


def _require_lstm_of_onnx(op: Op) -> None:
    for name in (*NORM, *PROJECTION):
        require(not op.given(name), f"{name}, which ONNX's LSTM lacks")
    require(op.given(INPUT_GATE[0]), "an input gate that is 1 - forget gate")
    require(not op.scalar("cell_clip"), "cell_clip, which ONNX's LSTM lacks")
    activation = op.number("activation")
    require(activation in _ACTIVATIONS, f"activation {activation}")
    given = [op.given(name) for name in PEEPHOLE]
    require(any(given) == all(given), "peepholes of some gates")
    for name in (*INPUT, *RECURRENT, *BIASES, *(PEEPHOLE if all(given) else ())):
        require(op.scope.constant(op.index(name)), f"operand {name} is not constant")


def _one_node(op: Op, inputs: str, shape: Sequence[int]) -> list[str]:
    """The outputs [times, batches, units], the last output and cell state of one LSTM node.

    inputs   [times, batches, size], of that shape
    """
    (times, batches, _), (units, _) = shape, op.shape(RECURRENT[1])
    weights = [
        op.scope.stacked([op.index(names[gate]) for gate in ONNX_GATES], zeros)
        for names, zeros in ((INPUT, 0), (RECURRENT, 0), (BIASES, 4 * units))
    ]
    state = (1, batches, units)
    start = [op.reshape(op.real(f"{name}_state_in"), state) for name in ("output", "cell")]
    peepholes = []
    if op.given(PEEPHOLE[0]):
        peepholes = [op.scope.stacked([op.index(PEEPHOLE[i]) for i in (0, 2, 1)])]
    inner = _ACTIVATIONS[op.number("activation")]
    outputs, *last = op.scope.graph.many(
        "LSTM",
        3,
        inputs,
        *weights,
        "",
        *start,
        *peepholes,
        hidden_size=units,
        activations=("Sigmoid", inner, inner),
    )
    op.scope.graph.shapes |= dict.fromkeys(last, state)
    return [op.reshape(outputs, (times, batches, units)), *last]


def _unrolled(op: Op, inputs: str, shape: Sequence[int]) -> list[str]:
    """The same, of matrix products, gates and activations of each step."""
    times, batches, size = shape
    require(times <= _MOST_STEPS, f"a sequence of {times} steps")
    weights, recurrent, bias = (
        op.node("Concat", *map(op.real, names), axis=0) for names in (INPUT, RECURRENT, BIASES)
    )
    rows = op.reshape(inputs, (times * batches, size))
    sums = op.node("Gemm", rows, weights, bias, transB=1)
    steps = op.divided(sums, [batches] * times, 0)
    hidden, cell, outputs = op.real("output_state_in"), op.real("cell_state_in"), []
    for step in steps:
        total = op.node("Gemm", hidden, recurrent, step, transB=1)
        hidden, cell = _step(op, total, cell)
        outputs.append(op.node("Unsqueeze", hidden, op.sizes([0])))
    return [op.joined(outputs, 0), hidden, cell]


def _step(op: Op, sums: str, cell: str) -> tuple[str, str]:
    """The next output and cell state; `sums`: of all gates, [batches, 4 * units]."""
    activation = _ACTIVATIONS[op.number("activation")]
    entry, forget, candidate, output = op.scope.graph.many("Split", 4, sums, axis=1, num_outputs=4)
    entry, forget = (
        op.node("Sigmoid", _looking(op, gate, cell, name))
        for gate, name in ((entry, PEEPHOLE[0]), (forget, PEEPHOLE[1]))
    )
    new = op.node("Mul", entry, op.node(activation, candidate))
    cell = op.node("Add", op.node("Mul", forget, cell), new)
    output = op.node("Sigmoid", _looking(op, output, cell, PEEPHOLE[2]))
    return op.node("Mul", output, op.node(activation, cell)), cell


def _looking(op: Op, gate: str, cell: str, name: str) -> str:
    """A gate's sums with the peephole term, if there is one."""
    if not op.given(name):
        return gate
    return op.node("Add", gate, op.node("Mul", op.real(name), cell))


ROWS = (row(spec.UNIDIRECTIONAL_SEQUENCE_LSTM, unidirectional_sequence_lstm, F32, F16),)
