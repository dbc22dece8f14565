"""Cell of QUANTIZED_LSTM: one step in fixed point, with all numbers in int64.

It follows each rounding of Android's reference implementation, because the steps of the state may
be as small as one rounding. Where that implementation deviates from the NDK documentation, the NDK
wins: peepholes read the previous cell state, gates without layer normalization have their bias, and
the hidden state's zero point and the projection's clipping threshold are those of real numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernels.fixed_point import (
    ONE,
    Multiplier,
    divide,
    inverse_root,
    logistic,
    saturate,
    tanh,
)
from ep_nnapi.nnapi.host.kernels.linear import as_factors, factors
from ep_nnapi.nnapi.host.kernels.recurrence import columns
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.recurrent import GATES

GATE_BITS = 12
"""Fraction bits of the gates that `logistic` and `tanh` take."""
_ROOT_BITS = 10
"""Fraction bits of normalized sums."""
_BYTE = 8


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Integer sums: rows of type `source` times weights [inputs, sums], plus bias, rescaled."""

    source: Operand
    weights: Array
    bias: Array
    scale: Multiplier

    @staticmethod
    def of(weights: Array, types: tuple[Operand, Operand], bias: Array, scale: Array) -> Sums:
        """Packs `weights` [sums, inputs]; `types` are those of the rows and of the weights."""
        source, operand = types
        matrix = factors(weights, operand, np.zeros(1), source, axis=0)
        return Sums(source, columns(matrix), bias.astype(np.int64), Multiplier.of(scale))

    def __call__(self, rows: Array) -> Array:
        """Returns the sums [rows, sums]."""
        found = as_factors(rows, self.source, self.weights.dtype) @ self.weights
        return self.scale(found.astype(np.int64) + self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """Weights [gates, units], and a factor [gates, 1] for their products."""

    weights: Array
    scale: Multiplier

    def __getitem__(self, gates: slice) -> Scaled:
        """Returns the weights and factors of some gates."""
        scale = Multiplier(self.scale.mantissa[gates], self.scale.shift[gates])
        return Scaled(self.weights[gates], scale)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A quantized LSTM cell; `sums` are [gates * units], gates in the order of GATES.

    coupled        no input gate: it is 1 - forget gate (CIFG)
    read           sums of the input, to which those of the previous output are added
    recurrent      sums of the previous output
    peephole       weights of the cell state for all gates except the cell gate, or None
    norm           weights and biases [gates, units] of layer normalization, or None
    integer_bits   integer bits of the cell state
    hidden         factor from products of gates to the hidden state, and its zero point
    projection     sums of the hidden state, or None
    zero_point     zero point of the output
    clips          clipping thresholds of the cell state and the projection, stored; 0 for none
    """

    coupled: bool
    read: Sums
    recurrent: Sums
    peephole: Scaled | None
    norm: tuple[Scaled, Array] | None
    integer_bits: int
    hidden: tuple[Multiplier, int]
    projection: Sums | None
    zero_point: int
    clips: tuple[int, int]

    def step(self, input: Array, output: Array, cell: Array) -> tuple[Array, Array]:
        """Returns the next output and cell state. Source: NDK ANEURALNETWORKS_QUANTIZED_LSTM."""
        sums = saturate(saturate(self.read(input)) + self.recurrent(output))
        gates = sums.reshape(len(cell), len(GATES) - self.coupled, cell.shape[1])
        entry = self._look(gates[:, :-2], cell, slice(None, -1))
        entry = logistic(self._normalize(entry, slice(None, -2)))
        candidate = tanh(self._normalize(gates[:, -2:-1], slice(-2, -1)))[:, 0]
        forget = entry[:, -1]
        admitted = ONE - forget if self.coupled else entry[:, 0]
        cell = divide(forget * cell, 15) + divide(admitted * candidate, 15 + self.integer_bits)
        cell = _clipped(saturate(cell), 0, self.clips[0])
        last = self._look(gates[:, -1:], cell, slice(-1, None))
        last = logistic(self._normalize(last, slice(-1, None)))[:, 0]
        return self._output(last * tanh(cell, self.integer_bits)), cell

    def _look(self, gates: Array, cell: Array, which: slice) -> Array:
        """Returns gates [batches, gates, units] plus their peephole terms, if there are any."""
        if self.peephole is None:
            return gates
        peephole = self.peephole[which]
        return saturate(gates + peephole.scale(peephole.weights * cell[:, np.newaxis]))

    def _normalize(self, gates: Array, which: slice) -> Array:
        """Returns gates after layer normalization, if the cell has it."""
        if self.norm is None:
            return gates
        norm, bias = self.norm[0][which], self.norm[1][which]
        weighted = divide(_normalized(gates) * norm.weights + bias, _ROOT_BITS)
        return saturate(norm.scale(weighted, up=GATE_BITS))

    def _output(self, products: Array) -> Array:
        """Returns the output for products of gates: the hidden state, or its projection."""
        scale, zero_point = self.hidden
        hidden = saturate(scale(products) + zero_point, _BYTE)
        if self.projection is None:
            return hidden
        projected = saturate(self.projection(hidden) + self.zero_point, _BYTE)
        return _clipped(projected, self.zero_point, self.clips[1])


def _normalized(gates: Array) -> Array:
    """Returns each gate's sums [..., units] normalized to zero mean and unit deviation."""
    units, square_bits = max(1, gates.shape[-1]), 2 * _ROOT_BITS
    mean = _quotient(gates.sum(axis=-1, keepdims=True) << _ROOT_BITS, units)
    squares = np.square(gates).sum(axis=-1, keepdims=True) * ((1 << square_bits) // units)
    root = inverse_root(_quotient(squares - mean * mean, 1 << square_bits))
    return root((gates << _ROOT_BITS) - mean)


def _quotient(values: Array, divisor: int) -> Array:
    """Divides integers, rounding towards zero."""
    found: Array = np.sign(values) * (np.abs(values) // divisor)
    return found


def _clipped(values: Array, zero_point: int, threshold: int) -> Array:
    if threshold <= 0:
        return values
    return values.clip(zero_point - threshold, zero_point + threshold)
