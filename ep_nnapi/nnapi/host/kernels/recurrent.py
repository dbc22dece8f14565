"""Recurrent kernels: cells over time, basic RNNs, and SVDF, whose filters have rank-1 factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import Protocol, TypeAlias

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.concurrent_runs import Run
from ep_nnapi.nnapi.host.kernel import Kernel, KernelFunction, real
from ep_nnapi.nnapi.host.kernels import elementwise
from ep_nnapi.nnapi.host.kernels.elementwise import logistic, tanh
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.shapes.recurrent import RNN_CELL
from ep_nnapi.nnapi.signature import OperationSpec
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


class RealCell(Protocol):
    """A recurrent cell of real numbers."""

    @property
    def read(self) -> Array:
        """Weights [inputs, sums] of the input, then of the auxiliary input."""

    @property
    def bias(self) -> Array | None:
        """Bias of the sums; None if `step` adds it."""

    def step(self, sums: Array, state: State) -> State:
        """Returns the next state; overwrites `sums` [batches, sums], those of this step's input."""


@dataclass(frozen=True, slots=True, eq=False)
class Traversal:
    """A cell, its input sequence [times, batches, inputs] and its initial state."""

    cell: RealCell
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


def step_of(states: Sequence[str], receivers: Callable[[State], State]) -> KernelFunction:
    """A kernel of one step.

    states      names of the operands of the state
    receivers   of the outputs: the arrays of the output and of the state
    """

    def compute(input: Array, cell: RealCell, *, run: Run, out: State, **operands: Array) -> None:
        output, *last = receivers(out)
        step = Traversal(cell, input[np.newaxis], tuple(operands[name] for name in states))
        _store(step.into(output[np.newaxis], run), tuple(last))

    return compute


def over_sequence(states: Sequence[str]) -> KernelFunction:
    """A kernel of a sequence, whose last state is an output if requested."""

    def compute(
        input: Array,
        cell: RealCell,
        time_major: int,
        *,
        run: Run,
        out: Array | State,
        **operands: Array,
    ) -> None:
        by_step = bool(time_major)
        given = tuple(operands[name] for name in states)
        (output,), last = _receivers(out, 1, len(given))
        steps = Traversal(cell, by_time(input, by_step), given)
        _store(steps.into(by_time(output, by_step), run), last)

    return compute


def over_both_directions(states: Sequence[str], auxiliary: str) -> KernelFunction:
    """A kernel of a sequence and its reverse; `auxiliary`: weights of the auxiliary input."""

    def compute(
        input: Array,
        forward: RealCell,
        backward: RealCell,
        merge_outputs: bool,
        time_major: bool,
        *,
        run: Run,
        out: Array | State,
        **operands: Array,
    ) -> None:
        crossed = f"fw_{auxiliary}" in operands
        sequences = _concatenated_input(input, operands.get("aux_input"), crossed)
        first, second = (
            Traversal(
                cell,
                by_time(sequence, time_major),
                tuple(operands[f"{way}_{name}"] for name in states),
            )
            for way, cell, sequence in zip(
                ("fw", "bw"), (forward, backward), sequences, strict=True
            )
        )
        _run_both((first, second), out, merge_outputs, time_major, run)

    return compute


def cell_kernels(
    rows: Sequence[OperationSpec],
    whole: Gathered,
    auxiliary: str,
    receivers: Callable[[State], State],
) -> tuple[Kernel, ...]:
    """The kernels of a cell's step, of a sequence, and of both directions.

    whole   of the cell's tensors, those of the state included
    The others are as in `over_both_directions` and `step_of`.
    """
    tensors = tuple(name for name in whole.names if not name.endswith("_in"))
    states = tuple(name for name in whole.names if name.endswith("_in"))
    cell, forward, backward = (
        replace(whole, names=tensors, prefix=prefix) for prefix in ("", "fw_", "bw_")
    )
    both = over_both_directions(states, auxiliary)
    return (
        real(rows[0], step_of(states, receivers), F32, F16, cell=cell),
        real(rows[1], over_sequence(states), F32, F16, cell=cell),
        real(rows[2], both, F32, F16, forward=forward, backward=backward),
    )


def _run_both(
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


def _concatenated_input(
    input: Array, aux_input: Array | None, crossed: bool
) -> tuple[Array, Array]:
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
    moved = state_out.reshape(batches, filters, memory)
    moved[..., :-1] = results[..., 1:]
    moved[..., -1:] = 0


_RNNS = spec.RNN, spec.UNIDIRECTIONAL_SEQUENCE_RNN, spec.BIDIRECTIONAL_SEQUENCE_RNN
KERNELS = (
    *cell_kernels(
        _RNNS,
        Gathered(RnnCell.of, (*RNN_CELL,), ("activation",)),
        "aux_weights",
        lambda out: out[::-1],
    ),
    real(spec.SVDF, svdf, F32, F16),
)
