"""Recurrent operations: one node for the whole sequence, or unrolled over time."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.recurrent import (
    AUXILIARY,
)
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.ort_devices.lowering.recurrent_cells import (
    AnyCell,
    LstmCell,
    RnnCell,
    State,
    passed,
    unrolled,
)
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row


def _single(op: Op, cell: AnyCell) -> State:
    """The state after one step."""
    shape = op.shape("input")
    return unrolled(cell, op.real("input"), (1, *shape), backward=False)[0]


def rnn(op: Op) -> None:
    """RNN step. Source: NDK ANEURALNETWORKS_RNN."""
    (hidden,) = _single(op, RnnCell(op))
    op.keep(hidden, output="hidden_state_out")
    op.keep(hidden)


def lstm(op: Op) -> None:
    """LSTM step; the scratch buffer is filled with zeros. Source: NDK ANEURALNETWORKS_LSTM."""
    hidden, cell = _single(op, LstmCell(op))
    scratch = op.node("Expand", op.array(0), op.sizes(op.shape("scratch_buffer")))
    op.keep(scratch, output="scratch_buffer")
    op.keep(hidden, output="output_state_out")
    op.keep(cell, output="cell_state_out")
    op.keep(hidden)


def _sequence(op: Op, name: str) -> tuple[str, tuple[int, ...]]:
    """An input sequence as [times, batches, size], and its shape."""
    first, second, size = op.shape(name)
    if op.scalar("time_major"):
        return op.real(name), (first, second, size)
    return op.real(name, (1, 0, 2)), (second, first, size)


def _deliver(op: Op, sequence: str, output: str = "output") -> None:
    """Define an output by [times, batches, units]."""
    op.keep(sequence, None if op.scalar("time_major") else (1, 0, 2), output)


def _one_way(op: Op, cell: AnyCell, last: Sequence[str]) -> None:
    found = passed(cell, *_sequence(op, "input"), backward=False)
    _deliver(op, found.outputs)
    _keep_last(op, found.last, last)


def _keep_last(op: Op, state: State, names: Sequence[str]) -> None:
    """Define the outputs for the last state, if the operation has them."""
    for value, name in zip(state, names, strict=True):
        if op.indexes(name):
            op.keep(op.reshape(value, op.shape(name)), output=name)


def _both_ways(op: Op, kind: type[RnnCell] | type[LstmCell], last: Sequence[str]) -> None:
    """A forward and a backward pass; `last` names the state outputs without prefix."""
    forward, backward = kind(op, "fw_"), kind(op, "bw_")
    inputs, shape = _sequence(op, "input")
    reads = [(inputs, shape), (inputs, shape)]
    if op.given("aux_input"):
        other, other_shape = _sequence(op, "aux_input")
        crossed = forward.given("aux_weights" if kind is RnnCell else AUXILIARY[1])
        if crossed:
            both = op.node("Concat", inputs, other, axis=2)
            reads = [(both, (*shape[:2], shape[2] + other_shape[2]))] * 2
        else:
            reads[1] = (other, other_shape)
    ahead = passed(forward, *reads[0], backward=False)
    back = passed(backward, *reads[1], backward=True)
    if op.scalar("merge_outputs"):
        _deliver(op, op.node("Concat", ahead.outputs, back.outputs, axis=2))
    else:
        _deliver(op, ahead.outputs, "fw_output")
        _deliver(op, back.outputs, "bw_output")
    _keep_last(op, ahead.last, [f"fw_{name}" for name in last])
    _keep_last(op, back.last, [f"bw_{name}" for name in last])


_RNN_STATE = ("hidden_state_out",)
_LSTM_STATE = ("output_state_out", "cell_state_out")


def unidirectional_sequence_rnn(op: Op) -> None:
    """RNN over a sequence. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_RNN."""
    _one_way(op, RnnCell(op), _RNN_STATE)


def unidirectional_sequence_lstm(op: Op) -> None:
    """LSTM over a sequence. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM."""
    _one_way(op, LstmCell(op), _LSTM_STATE)


def bidirectional_sequence_rnn(op: Op) -> None:
    """RNN both ways. Source: NDK ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_RNN."""
    _both_ways(op, RnnCell, _RNN_STATE)


def bidirectional_sequence_lstm(op: Op) -> None:
    """LSTM both ways. Source: NDK ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_LSTM."""
    _both_ways(op, LstmCell, _LSTM_STATE)


ROWS = (
    row(spec.RNN, rnn, F32, F16),
    row(spec.LSTM, lstm, F32, F16),
    row(spec.UNIDIRECTIONAL_SEQUENCE_RNN, unidirectional_sequence_rnn, F32, F16),
    row(spec.UNIDIRECTIONAL_SEQUENCE_LSTM, unidirectional_sequence_lstm, F32, F16),
    row(spec.BIDIRECTIONAL_SEQUENCE_RNN, bidirectional_sequence_rnn, F32, F16),
    row(spec.BIDIRECTIONAL_SEQUENCE_LSTM, bidirectional_sequence_lstm, F32, F16),
)
