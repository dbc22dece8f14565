"""LSTM kernels on real numbers: single step, sequence, bidirectional sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernels.elementwise import logistic
from ep_nnapi.nnapi.host.kernels.normalization import subtract_mean
from ep_nnapi.nnapi.host.kernels.recurrent import (
    Gathered,
    State,
    activate,
    cell_kernels,
    columns,
    product,
)
from ep_nnapi.nnapi.shapes import recurrent as parts
from ep_nnapi.nnapi.shapes.operands import require

_EPSILON = 1e-8
"""Added to the variance by layer normalization, as Android does."""


@dataclass(frozen=True, slots=True, eq=False)
class LstmCell:
    """An LSTM cell; `sums` are [gates * units], gates in the order of GATES.

    coupled      no input gate: it is 1 - forget gate (CIFG)
    read         weights [inputs, sums] of the input and then of the auxiliary input
    recurrent    weights [outputs, sums]
    bias         bias of the sums; with layer normalization it is added after that instead
    peephole     weights [gates except the cell gate, units] of the cell state, or None
    norm         weights and biases [gates, units] of layer normalization, or None
    projection   weights [units, outputs] and bias, or None
    clips        clipping thresholds of the cell state and of the projection; 0 for none
    """

    coupled: bool
    read: Array
    recurrent: Array
    bias: Array | None
    peephole: Array | None
    norm: tuple[Array, Array] | None
    projection: tuple[Array, Array | float] | None
    clips: tuple[float, float]
    activation: int

    @staticmethod
    def of(activation: int, cell_clip: float, projection_clip: float, **tensors: Array) -> LstmCell:
        """Returns the cell of an operation's operands; raises ShapeError for a negative clip."""
        clips = cell_clip, projection_clip
        require(min(clips) >= 0, f"a clipping threshold is negative: {min(clips):g}")
        first = 0 if parts.INPUT_GATE[0] in tensors else 1

        def of_gates(names: Sequence[str]) -> list[Array]:
            return [tensors[name] for name in names[first:] if name in tensors]

        read = [
            np.concatenate(of_gates(names))
            for names in (parts.INPUT, parts.AUXILIARY)
            if of_gates(names)
        ]
        bias, norm, peephole = map(of_gates, (parts.BIASES, parts.NORM, parts.PEEPHOLE))
        projection = tensors.get(parts.PROJECTION[0])
        return LstmCell(
            first == 1,
            columns(np.hstack(read)),
            columns(np.concatenate(of_gates(parts.RECURRENT))),
            None if norm else np.concatenate(bias),
            np.stack(peephole) if peephole else None,
            (np.stack(norm), np.stack(bias)) if norm else None,
            None
            if projection is None
            else (columns(projection), tensors.get(parts.PROJECTION[1], 0.0)),
            clips,
            activation,
        )

    def step(self, sums: Array, state: State) -> State:
        """Returns the next output and cell state. Source: NDK ANEURALNETWORKS_LSTM."""
        hidden, cell = state
        sums += product(hidden, self.recurrent)
        gates = sums.reshape(len(cell), len(parts.GATES) - self.coupled, cell.shape[1])
        self._look(gates[:, :-2], cell, slice(None, -1))
        self._normalize(gates[:, :-1], slice(None, -1))
        logistic(gates[:, :-2], out=gates[:, :-2])
        forget, candidate, output = gates[:, -3], gates[:, -2], gates[:, -1:]
        activate(candidate, self.activation)
        candidate *= 1 - forget if self.coupled else gates[:, 0]
        cell = self._clipped(forget * cell + candidate, self.clips[0])
        self._look(output, cell, slice(-1, None))
        self._normalize(output, slice(-1, None))
        logistic(output, out=output)
        hidden = cell.copy()
        activate(hidden, self.activation)
        hidden *= output[:, 0]
        if self.projection is not None:
            weights, bias = self.projection
            hidden = self._clipped(product(hidden, weights) + bias, self.clips[1])
        return hidden, cell

    def _look(self, gates: Array, cell: Array, which: slice) -> None:
        """Adds the peephole terms to gates [batches, gates, units], if there are any."""
        if self.peephole is not None:
            gates += self.peephole[which] * cell[:, np.newaxis]

    def _normalize(self, gates: Array, which: slice) -> None:
        """Applies layer normalization and bias to the gates in place, if the cell has them."""
        if self.norm is not None:
            weights, bias = self.norm
            variance, rest = subtract_mean(gates, (-1,), gates)
            scale = 1 / np.sqrt(variance + _EPSILON)
            gates *= scale.astype(np.float32)
            gates -= (rest * scale).astype(np.float32)
            gates *= weights[which]
            gates += bias[which]

    @staticmethod
    def _clipped(values: Array, threshold: float) -> Array:
        return values.clip(-threshold, threshold) if threshold > 0 else values


def _receivers(out: State) -> State:
    """The output and the states of a step; the scratch buffer is filled with zeros."""
    scratch, *states, output = out
    scratch.fill(0)
    return (output, *states)


_LSTMS = spec.LSTM, spec.UNIDIRECTIONAL_SEQUENCE_LSTM, spec.BIDIRECTIONAL_SEQUENCE_LSTM
_SCALARS = ("activation", "cell_clip", "projection_clip")
_CELL = Gathered(LstmCell.of, (*parts.LSTM_CELL,), _SCALARS)
KERNELS = cell_kernels(_LSTMS, _CELL, parts.AUXILIARY[1], _receivers)
