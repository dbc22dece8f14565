"""Kernels of the two quantized LSTM operations, in fixed point, with all numbers in int64.

They follow each rounding of Android's reference implementation, because the steps of the state may
be as small as one rounding. Where that implementation deviates from the NDK documentation, the NDK
wins: peepholes read the previous cell state, gates without layer normalization have their bias, and
the hidden state's zero point and the projection's clipping threshold are those of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.fixed_point import (
    ONE,
    Multiplier,
    divide,
    inverse_root,
    logistic,
    product,
    rescale,
    saturate,
    tanh,
)
from ep_nnapi.nnapi.host.kernels.matmul import as_factors, factors
from ep_nnapi.nnapi.host.kernels.recurrent import Gathered, State, columns
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import recurrent as parts
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.spec import Q8, Q8S

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
class QuantizedLstmCell:
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
        gates = sums.reshape(len(cell), len(parts.GATES) - self.coupled, cell.shape[1])
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


_STATE_BITS = range(7)
"""Numbers of integer bits that a cell state may have."""
_STATE_BITS_16 = 4
_TOLERANCE = 1e-3
"""Tolerance of log2(scale) when a scale must be a power of two, as on Android."""
_UNIT = 128
"""Zero point and inverse scale of input and output. Source: NDK …_QUANTIZED_16BIT_LSTM."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Builds the parts of a cell from the tensors and types of an operation's operands.

    results   the scale of each gate's sums
    """

    types: Types
    tensors: dict[str, Array]
    results: Array

    def sums(self, names: Sequence[str], source: str, bias: Array) -> Sums:
        """Returns the sums over operand `source`, for all gates."""
        weights = np.concatenate([self.tensors[name] for name in names])
        scales = self._scales(names) * np.float32(self.types[source].scale) / self.results
        types = self.types[source], self.types[names[0]]
        return Sums.of(weights, types, bias, np.repeat(scales, len(weights) // len(names)))

    def peephole(self, names: Sequence[str], state_scale: float) -> Scaled:
        """Returns the peephole weights, for all gates except the cell gate."""
        results = np.delete(self.results, -2)
        scales = (state_scale * self._scales(names).astype(np.float64) / results).astype(np.float32)
        return self._scaled(names, scales)

    def norm(self, names: Sequence[str]) -> Scaled:
        """Returns the weights of layer normalization."""
        return self._scaled(names, self._scales(names))

    def _scaled(self, names: Sequence[str], scales: Array) -> Scaled:
        weights = np.stack([self.tensors[name] for name in names])
        return Scaled(weights.astype(np.int64), Multiplier.of(scales[:, np.newaxis]))

    def _scales(self, names: Sequence[str]) -> Array:
        return np.array([self.types[name].scale for name in names], np.float32)


def pack(
    types: Types,
    hidden_state_zero_point: int,
    hidden_state_scale: float,
    cell_clip: float = 0.0,
    projection_clip: float = 0.0,
    **operands: Array | float,
) -> QuantizedLstmCell:
    """Packs QUANTIZED_LSTM's operands into a cell; raises ShapeError for an invalid scale."""
    tensors = {name: value for name, value in operands.items() if isinstance(value, np.ndarray)}
    first = 0 if parts.INPUT_GATE[0] in tensors else 1
    state, output = types["cell_state_in"], types["output_state_in"]
    integer_bits = _integer_bits(state)
    hidden = replace(output, scale=hidden_state_scale, zero_point=hidden_state_zero_point)
    bias = np.stack([tensors[name] for name in parts.BIASES[first:]]).astype(np.int64)
    normed, peeping = parts.NORM[1] in tensors, parts.PEEPHOLE[1] in tensors
    results = [f"{gate}_intermediate_scale" for gate in parts.GATES[first:]]
    scales = [operands[name] if normed else 2.0**-GATE_BITS for name in results]
    least = min(hidden_state_scale, *(float(scale) for scale in scales))
    require(least > 0, f"a scale of the hidden state or of a gate is {least:g}")
    maker = Maker(types, tensors, np.array(scales, np.float32))
    no_bias = np.zeros(bias.size)
    return QuantizedLstmCell(
        first == 1,
        maker.sums(parts.INPUT[first:], "input", no_bias if normed else bias.reshape(-1)),
        maker.sums(parts.RECURRENT[first:], "output_state_in", no_bias),
        maker.peephole(parts.PEEPHOLE[first:], 2.0 ** (integer_bits - 15)) if peeping else None,
        (maker.norm(parts.NORM[first:]), bias) if normed else None,
        integer_bits,
        (Multiplier.of(np.float32(2.0**-30 / hidden_state_scale)), hidden_state_zero_point),
        _projection(types, tensors, hidden) if parts.PROJECTION[0] in tensors else None,
        output.zero_point,
        (_steps(cell_clip, state), _steps(projection_clip, output)),
    )


def _projection(types: Types, tensors: dict[str, Array], hidden: Operand) -> Sums:
    weights, kind = tensors[parts.PROJECTION[0]], types[parts.PROJECTION[0]]
    bias = tensors.get(parts.PROJECTION[1], np.zeros(len(weights)))
    scale = np.float32(kind.scale) * np.float32(hidden.scale)
    scale /= np.float32(types["output_state_in"].scale)
    return Sums.of(weights, (hidden, kind), bias, np.array(scale))


def _integer_bits(state: Operand) -> int:
    """Returns the cell state's integer bits; ShapeError unless its scale is a power of two."""
    exponent = log2(state.scale) if state.scale > 0 else 0.5
    fits = abs(exponent - round(exponent)) < _TOLERANCE and round(exponent) + 15 in _STATE_BITS
    require(fits, f"a cell's state has scale {state.scale:g}, which is none of 2**-15 to 2**-9")
    return round(exponent) + 15


def _steps(threshold: float, operand: Operand) -> int:
    """Returns a threshold in steps of an operand's scale."""
    return int(np.float32(threshold) / np.float32(operand.scale)) if threshold > 0 else 0


def quantized_lstm(
    input: Array,
    cell: QuantizedLstmCell,
    output_state_in: Array,
    cell_state_in: Array,
    *,
    out: State,
    **operands: object,
) -> None:
    """Quantized LSTM step."""
    output_state, cell_state, output = out
    output[...], cell_state[...] = cell.step(input, output_state_in, cell_state_in.astype(np.int64))
    output_state[...] = output


def pack_16bit(types: Types, **tensors: Array) -> Sums:
    """Packs the gates of QUANTIZED_16BIT_LSTM; raises ShapeError for a wrong quantization."""
    weights = types[parts.INPUT[0]]
    unit = replace(weights, scale=1 / _UNIT, zero_point=_UNIT)
    _quantized_as(unit, ("input", "output_state_in"), types)
    _quantized_as(weights, (*parts.INPUT, *parts.RECURRENT), types)
    _quantized_as(replace(weights, scale=weights.scale / _UNIT, zero_point=0), parts.BIASES, types)
    bits = _integer_bits(types["cell_state_in"])
    require(bits == _STATE_BITS_16, f"a cell's state has {bits} integer bits, not {_STATE_BITS_16}")
    # Rows are [input, previous output], but the recurrent weights come first, as in Android's
    # implementation, whose results devices are tested against and whose clients split weights so.
    matrix = np.block(
        [[tensors[b], tensors[a]] for a, b in zip(parts.INPUT, parts.RECURRENT, strict=True)]
    )
    bias = np.concatenate([tensors[name] for name in parts.BIASES])
    scale = np.float32(weights.scale / _UNIT) * np.float64(2.0**GATE_BITS)
    return Sums.of(matrix, (types["input"], weights), bias, np.array(scale))


def _quantized_as(like: Operand, names: Sequence[str], types: Types) -> None:
    for name in names:
        operand = types[name]
        same = np.float32(operand.scale) == np.float32(like.scale)
        require(
            bool(same) and operand.zero_point == like.zero_point,
            f"{name} has scale {operand.scale:g} and zero point {operand.zero_point},"
            f" not {like.scale:g} and {like.zero_point}",
        )


def quantized_16bit_lstm(
    input: Array,
    gates: Sums,
    cell_state_in: Array,
    output_state_in: Array,
    *,
    out: State,
    **operands: object,
) -> None:
    """Quantized LSTM step, 16-bit state."""
    state, output = out
    sums = saturate(gates(np.hstack([input, output_state_in])))
    entry, forget, cell, last = np.split(sums, len(parts.GATES), axis=1)
    admitted = rescale(product(logistic(entry), tanh(cell)), -_STATE_BITS_16)
    kept = product(logistic(forget), cell_state_in.astype(np.int64))
    state[...] = found = saturate(admitted + kept)
    reached = product(logistic(last), tanh(rescale(found, _STATE_BITS_16 - 3)))
    output[...] = saturate(divide(reached, 8), 8) + _UNIT


_TENSORS = tuple(name for name in parts.LSTM_CELL if not name.endswith("_in"))
_SCALARS = (
    *(f"{gate}_intermediate_scale" for gate in parts.GATES),
    "cell_clip",
    "projection_clip",
    "hidden_state_zero_point",
    "hidden_state_scale",
)
_CELL = Gathered(pack, (*_TENSORS, *_SCALARS), ("types",))
_GATES = Gathered(pack_16bit, (*parts.INPUT, *parts.RECURRENT, *parts.BIASES), ("types",))

KERNELS = (
    stored(spec.QUANTIZED_LSTM, quantized_lstm, Q8S, cell=_CELL),
    stored(spec.QUANTIZED_16BIT_LSTM, quantized_16bit_lstm, Q8, gates=_GATES),
)
