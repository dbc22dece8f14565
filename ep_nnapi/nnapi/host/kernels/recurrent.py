"""Recurrent kernels: cells over time, basic RNNs, and SVDF, whose filters have rank-1 factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Protocol, TypeAlias

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.host.kernels import elementwise
from ep_nnapi.nnapi.host.kernels.elementwise import logistic, tanh
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.shapes.recurrent import RNN_CELL
from ep_nnapi.nnapi.spec import F16, F32

State: TypeAlias = tuple[Array, ...]
"""State arrays passed to the next step; the first one is the step's output."""

_SMOOTH = {4: tanh, 6: logistic}
"""Activations beside those of FuseCode, by code. Source: NDK ANEURALNETWORKS_LSTM, input 20."""
_BLOCK = 1 << 20
"""Bytes of sums computed at once, small enough to stay in the cache until the steps read them."""


def activate(values: Array, activation: int) -> None:
    """Applies the activation of an LSTM or RNN in place."""
    smooth = _SMOOTH.get(activation)
    require(
        smooth is not None or activation in elementwise.RANGES,
        f"activation {activation} is none of 0 to 3, 4 and 6",
    )
    if smooth is None:
        elementwise.activate(values, activation)
    else:
        smooth(values, out=values)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A `pack` function of one cell, whose operands have a common prefix in `spec.py`.

    names    names without the prefix; omitted operands are not passed to `make`
    shared   names of operands that have no prefix
    """

    make: Callable[..., object]
    names: tuple[str, ...]
    shared: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def __signature__(self) -> Signature:
        """The operands as parameters, for `inspect.signature`."""
        names = (*(self.prefix + name for name in self.names), *self.shared)
        return Signature([Parameter(n, Parameter.KEYWORD_ONLY, default=None) for n in names])

    def __call__(self, **operands: object) -> object:
        """Packs the operands into a cell."""
        return self.make(**{n.removeprefix(self.prefix): v for n, v in operands.items()})


class Cell(Protocol):
    """A recurrent cell of real numbers."""

    @property
    def read(self) -> Array:
        """Weights [inputs, sums] of the input, then of the auxiliary input."""
        ...

    @property
    def bias(self) -> Array | None:
        """Bias of the sums; None if `step` adds it."""
        ...

    def step(self, sums: Array, state: State) -> State:
        """Returns the next state; overwrites `sums` [batches, sums], those of this step's input."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Traversal:
    """A cell, its input sequence [times, batches, inputs] and its initial state."""

    cell: Cell
    sequence: Array
    state: State

    def into(self, outputs: Array, run: Run) -> State:
        """Stores the outputs of all steps [times, batches, outputs]; returns the last state.

        The input products are computed for many steps at once; only the recurrence is sequential.
        """
        cell, state = self.cell, self.state
        times, batches, depth = self.sequence.shape
        width = cell.read.shape[1]
        block = max(1, _BLOCK // max(1, batches * width * cell.read.itemsize))
        for start in range(0, times, block):
            part = self.sequence[start : start + block]
            rows = part.reshape(len(part) * batches, depth)
            sums = product(rows, cell.read).reshape(len(part), batches, width)
            if cell.bias is not None:
                sums += cell.bias
            for at, each in enumerate(sums, start):
                run.check()
                state = cell.step(each, state)
                outputs[at] = state[0]
        return state


def product(rows: Array, weights: Array) -> Array:
    """Returns the product of rows [M, K] and weights [K, N]."""
    out = np.empty((rows.shape[0], weights.shape[1]), np.float32)
    multiply(rows, weights, out)
    return out


def run_forward(forward: Traversal, out: Array | State, time_major: bool, run: Run) -> None:
    """Stores the outputs of a forward pass and, if requested, the last state."""
    (output,), last = _receivers(out, 1, len(forward.state))
    _store(forward.into(by_time(output, time_major), run), last)


def run_bidirectional(
    traversals: tuple[Traversal, Traversal],
    out: Array | State,
    merged: bool,
    time_major: bool,
    run: Run,
) -> None:
    """Stores the outputs of a forward and a backward pass, and the last states if requested.

    merged   one array takes both outputs, concatenated
    """
    forward, backward = traversals
    outputs, last = _receivers(out, 1 if merged else 2, len(forward.state) + len(backward.state))
    if merged:
        split = forward.state[0].shape[-1]
        outputs = outputs[0][..., :split], outputs[0][..., split:]
    first, second = (by_time(output, time_major) for output in outputs)
    reverse = Traversal(backward.cell, backward.sequence[::-1], backward.state)
    _store((*forward.into(first, run), *reverse.into(second[::-1], run)), last)


def columns(weights: Array) -> Array:
    """Returns weights [sums, inputs] as [inputs, sums], in a memory layout fast for few rows."""
    return np.ascontiguousarray(weights.T)


def by_time(sequence: Array, time_major: bool) -> Array:
    """Returns a view of a sequence as [times, batches, …]."""
    return sequence if time_major else sequence.swapaxes(0, 1)


def concatenated_input(input: Array, aux_input: Array | None, crossed: bool) -> tuple[Array, Array]:
    """Returns the inputs of the forward and the backward cell.

    crossed   both also read the auxiliary input; otherwise the backward cell reads it instead
    """
    if aux_input is None:
        return input, input
    if crossed:
        both = np.concatenate([input, aux_input], axis=-1)
        return both, both
    return input, aux_input


def _receivers(out: Array | State, outputs: int, states: int) -> tuple[State, State]:
    """Returns the arrays for the outputs and for the last states (empty if not requested)."""
    every = out if isinstance(out, tuple) else (out,)
    expected = f"{outputs} or {outputs + states}"
    require(len(every) in (outputs, outputs + states), f"{len(every)} outputs are not {expected}")
    return every[:outputs], every[outputs:]


def _store(values: State, into: State) -> None:
    for value, target in zip(values, into, strict=False):
        np.copyto(target, value)


@dataclass(frozen=True, slots=True, eq=False)
class RnnCell:
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
    ) -> RnnCell:
        """Returns the cell of an operation's operands."""
        read = weights if aux_weights is None else np.hstack([weights, aux_weights])
        return RnnCell(columns(read), columns(recurrent_weights), bias, activation)

    def step(self, sums: Array, state: State) -> State:
        """Returns the next output, which is also the state. Source: NDK ANEURALNETWORKS_RNN."""
        sums += product(state[0], self.recurrent)
        activate(sums, self.activation)
        return (sums,)


def rnn(
    input: Array, cell: RnnCell, hidden_state_in: Array, *, run: Run, out: State, **operands: object
) -> None:
    """RNN step. Source: NDK ANEURALNETWORKS_RNN."""
    state, output = out
    step = Traversal(cell, input[np.newaxis], (hidden_state_in,))
    run_forward(step, (output[np.newaxis], state), True, run)


def unidirectional_sequence_rnn(
    input: Array,
    cell: RnnCell,
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
    forward: RnnCell,
    backward: RnnCell,
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
    Gathered(RnnCell.of, _TENSORS, ("activation",), prefix) for prefix in ("", "fw_", "bw_")
)


def svdf(
    input: Array,
    weights_feature: Array,
    weights_time: Array,
    state_in: Array,
    rank: int,
    activation: int,
    bias: Array | float = 0.0,
    *,
    out: State,
) -> None:
    """Weights each filter's recent results by time; `rank` filters are summed per unit.

    The state [batches, filters * memory] holds the results, oldest first. The new result is stored
    last; then all are shifted by one, which leaves zero in the last place, as on Android.
    Source: NDK ANEURALNETWORKS_SVDF.
    """
    state_out, output = out
    filters, memory = weights_time.shape
    batches = input.shape[0]
    results = state_in.reshape(batches, filters, memory).copy()
    results[..., -1:] = product(input, weights_feature.T)[..., np.newaxis]
    sums = np.einsum("bfm,fm->bf", results, weights_time, dtype=np.float64, casting="same_kind")
    np.copyto(output, sums.reshape(*output.shape, rank).sum(axis=-1), casting="same_kind")
    output += bias
    activate(output, activation)
    apply_deltas = state_out.reshape(batches, filters, memory)
    apply_deltas[..., :-1] = results[..., 1:]
    apply_deltas[..., -1:] = 0


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
    real(spec.SVDF, svdf, F32, F16),
)
