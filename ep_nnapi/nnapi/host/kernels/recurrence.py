"""Shared code of recurrent kernels: packing of cells, activations, iteration over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Protocol, TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernels import fused_activation
from ep_nnapi.nnapi.host.kernels.activation import logistic, tanh
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.shapes.operands import require

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
        smooth is not None or activation in fused_activation.RANGES,
        f"activation {activation} is none of 0 to 3, 4 and 6",
    )
    if smooth is None:
        fused_activation.activate(values, activation)
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
