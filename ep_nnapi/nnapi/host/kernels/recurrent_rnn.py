"""Basic RNN kernels on real numbers: single step, sequence, bidirectional sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.host.kernels.recurrence import (
    Gathered,
    State,
    Traversal,
    activate,
    by_time,
    columns,
    concatenated_input,
    product,
    run_bidirectional,
    run_forward,
)
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.shapes.recurrent import RNN_CELL
from ep_nnapi.nnapi.spec import F16, F32


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """An RNN cell: weights [inputs, units] of the input, and [units, units] of the state."""

    read: Array
    recurrent: Array
    bias: Array
    activation: int

    @staticmethod
    def of(
        weights: Array,
        recurrent_weights: Array,
        bias: Array,
        activation: int,
        aux_weights: Array | None = None,
    ) -> Cell:
        """Returns the cell of an operation's operands."""
        read = weights if aux_weights is None else np.hstack([weights, aux_weights])
        return Cell(columns(read), columns(recurrent_weights), bias, activation)

    def step(self, sums: Array, state: State) -> State:
        """Returns the next output, which is also the state. Source: NDK ANEURALNETWORKS_RNN."""
        sums += product(state[0], self.recurrent)
        activate(sums, self.activation)
        return (sums,)


def rnn(
    input: Array, cell: Cell, hidden_state_in: Array, *, run: Run, out: State, **operands: object
) -> None:
    """RNN step. Source: NDK ANEURALNETWORKS_RNN."""
    state, output = out
    step = Traversal(cell, input[np.newaxis], (hidden_state_in,))
    run_forward(step, (output[np.newaxis], state), True, run)


def unidirectional_sequence_rnn(
    input: Array,
    cell: Cell,
    hidden_state_in: Array,
    time_major: int,
    *,
    run: Run,
    out: Array | State,
    **operands: object,
) -> None:
    """RNN over a sequence. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_RNN."""
    steps = Traversal(cell, by_time(input, bool(time_major)), (hidden_state_in,))
    run_forward(steps, out, bool(time_major), run)


def bidirectional_sequence_rnn(
    input: Array,
    forward: Cell,
    backward: Cell,
    merge_outputs: bool,
    time_major: bool,
    *,
    run: Run,
    out: Array | State,
    **operands: Array,
) -> None:
    """Bidirectional RNN over a sequence.

    Source: NDK ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_RNN.
    """
    sequences = concatenated_input(input, operands.get("aux_input"), "fw_aux_weights" in operands)
    first, second = (
        Traversal(cell, by_time(sequence, time_major), (operands[f"{way}_hidden_state_in"],))
        for way, cell, sequence in zip(("fw", "bw"), (forward, backward), sequences, strict=True)
    )
    run_bidirectional((first, second), out, merge_outputs, time_major, run)


_TENSORS = tuple(name for name in RNN_CELL if not name.endswith("_in"))
_CELL, _FORWARD, _BACKWARD = (
    Gathered(Cell.of, _TENSORS, ("activation",), prefix) for prefix in ("", "fw_", "bw_")
)
KERNELS = (
    real(spec.RNN, rnn, F32, F16, cell=_CELL),
    real(spec.UNIDIRECTIONAL_SEQUENCE_RNN, unidirectional_sequence_rnn, F32, F16, cell=_CELL),
    real(
        spec.BIDIRECTIONAL_SEQUENCE_RNN,
        bidirectional_sequence_rnn,
        F32,
        F16,
        forward=_FORWARD,
        backward=_BACKWARD,
    ),
)
