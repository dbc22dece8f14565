"""Kernels of the two quantized LSTM operations, in fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.fixed_point import (
    Multiplier,
    divide,
    logistic,
    product,
    rescale,
    saturate,
    tanh,
)
from ep_nnapi.nnapi.host.kernels.quantized_cell import GATE_BITS, Cell, Scaled, Sums
from ep_nnapi.nnapi.host.kernels.recurrence import Gathered, State
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.shapes.recurrent import (
    BIASES,
    GATES,
    INPUT,
    INPUT_GATE,
    LSTM_CELL,
    NORM,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
)
from ep_nnapi.nnapi.spec import Q8, Q8S

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
) -> Cell:
    """Packs QUANTIZED_LSTM's operands into a cell; raises ShapeError for an invalid scale."""
    tensors = {name: value for name, value in operands.items() if isinstance(value, np.ndarray)}
    first = 0 if INPUT_GATE[0] in tensors else 1
    state, output = types["cell_state_in"], types["output_state_in"]
    integer_bits = _integer_bits(state)
    hidden = replace(output, scale=hidden_state_scale, zero_point=hidden_state_zero_point)
    bias = np.stack([tensors[name] for name in BIASES[first:]]).astype(np.int64)
    normed, peeping = NORM[1] in tensors, PEEPHOLE[1] in tensors
    results = [f"{gate}_intermediate_scale" for gate in GATES[first:]]
    scales = [operands[name] if normed else 2.0**-GATE_BITS for name in results]
    least = min(hidden_state_scale, *(float(scale) for scale in scales))
    require(least > 0, f"a scale of the hidden state or of a gate is {least:g}")
    maker = Maker(types, tensors, np.array(scales, np.float32))
    no_bias = np.zeros(bias.size)
    return Cell(
        first == 1,
        maker.sums(INPUT[first:], "input", no_bias if normed else bias.reshape(-1)),
        maker.sums(RECURRENT[first:], "output_state_in", no_bias),
        maker.peephole(PEEPHOLE[first:], 2.0 ** (integer_bits - 15)) if peeping else None,
        (maker.norm(NORM[first:]), bias) if normed else None,
        integer_bits,
        (Multiplier.of(np.float32(2.0**-30 / hidden_state_scale)), hidden_state_zero_point),
        _projection(types, tensors, hidden) if PROJECTION[0] in tensors else None,
        output.zero_point,
        (_steps(cell_clip, state), _steps(projection_clip, output)),
    )


def _projection(types: Types, tensors: dict[str, Array], hidden: Operand) -> Sums:
    weights, kind = tensors[PROJECTION[0]], types[PROJECTION[0]]
    bias = tensors.get(PROJECTION[1], np.zeros(len(weights)))
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
    cell: Cell,
    output_state_in: Array,
    cell_state_in: Array,
    *,
    out: State,
    **operands: object,
) -> None:
    """Quantized LSTM step. Source: NDK ANEURALNETWORKS_QUANTIZED_LSTM."""
    output_state, cell_state, output = out
    output[...], cell_state[...] = cell.step(input, output_state_in, cell_state_in.astype(np.int64))
    output_state[...] = output


def pack_16bit(types: Types, **tensors: Array) -> Sums:
    """Packs the gates of QUANTIZED_16BIT_LSTM; raises ShapeError for a wrong quantization."""
    weights = types[INPUT[0]]
    unit = replace(weights, scale=1 / _UNIT, zero_point=_UNIT)
    _quantized_as(unit, ("input", "output_state_in"), types)
    _quantized_as(weights, (*INPUT, *RECURRENT), types)
    _quantized_as(replace(weights, scale=weights.scale / _UNIT, zero_point=0), BIASES, types)
    bits = _integer_bits(types["cell_state_in"])
    require(bits == _STATE_BITS_16, f"a cell's state has {bits} integer bits, not {_STATE_BITS_16}")
    # Rows are [input, previous output], but the recurrent weights come first, as in Android's
    # implementation, whose results devices are tested against and whose clients split weights so.
    matrix = np.block([[tensors[b], tensors[a]] for a, b in zip(INPUT, RECURRENT, strict=True)])
    bias = np.concatenate([tensors[name] for name in BIASES])
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
    """Quantized LSTM step, 16-bit state. Source: NDK ANEURALNETWORKS_QUANTIZED_16BIT_LSTM."""
    state, output = out
    sums = saturate(gates(np.hstack([input, output_state_in])))
    entry, forget, cell, last = np.split(sums, len(GATES), axis=1)
    admitted = rescale(product(logistic(entry), tanh(cell)), -_STATE_BITS_16)
    kept = product(logistic(forget), cell_state_in.astype(np.int64))
    state[...] = found = saturate(admitted + kept)
    reached = product(logistic(last), tanh(rescale(found, _STATE_BITS_16 - 3)))
    output[...] = saturate(divide(reached, 8), 8) + _UNIT


_TENSORS = tuple(name for name in LSTM_CELL if not name.endswith("_in"))
_SCALARS = (
    *(f"{gate}_intermediate_scale" for gate in GATES),
    "cell_clip",
    "projection_clip",
    "hidden_state_zero_point",
    "hidden_state_scale",
)
_CELL = Gathered(pack, (*_TENSORS, *_SCALARS), ("types",))
_GATES = Gathered(pack_16bit, (*INPUT, *RECURRENT, *BIASES), ("types",))
KERNELS = (
    stored(spec.QUANTIZED_LSTM, quantized_lstm, Q8S, cell=_CELL),
    stored(spec.QUANTIZED_16BIT_LSTM, quantized_16bit_lstm, Q8, gates=_GATES),
)
