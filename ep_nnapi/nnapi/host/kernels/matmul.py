"""Matrix multiplication kernels, and what convolutions share with them: factors and epilogues.

Quantized factors are integers less their zero point, so that sums are exact: in float32 if no sum
can reach 2**24, which depends on the weights, else in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.codec import decode, encode, limits, scaled
from ep_nnapi.nnapi.host.kernel import Types, real, stored
from ep_nnapi.nnapi.host.kernels.elementwise import activate, activation_range
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import DATA, F16, F32, I32, Q8S

_EXACT = 2**24
"""Integers below this are exact in float32."""
_INNER_LENGTH = 1024
"""Least number of elements of an inner loop."""


def centered(stored: Array, operand: Operand) -> Array:
    """Returns weights as float32 factors: real values, or integers less their zero point."""
    if not operand.type.quantized:
        return decode(stored, operand)
    return np.subtract(stored, np.float32(operand.zero_point), dtype=np.float32)


def factors(
    weights: Array, weights_type: Operand, bias: Array, source: Operand, axis: int
) -> Array:
    """Returns `centered` weights, in float64 if sums in float32 might not be exact.

    axis   the axis of the output channels, each a separate sum
    """
    found = centered(weights, weights_type)
    if not source.type.quantized or found.size == 0:
        return found
    others = tuple(i for i in range(found.ndim) if i != axis)
    sums = np.abs(found).sum(axis=others, dtype=np.float64) * max_magnitude(source)
    return found.astype(exact(float(np.max(sums + np.abs(bias.astype(np.float64))))), copy=False)


def max_magnitude(operand: Operand) -> int:
    """Returns the greatest distance of a stored number from the zero point."""
    low, high = limits(operand.type)
    return max(operand.zero_point - low, high - operand.zero_point)


def exact(greatest: float) -> np.dtype[Any]:
    """Returns the type in which sums of integers up to `greatest` are exact."""
    return np.dtype(np.float32 if greatest < _EXACT else np.float64)


def read(out: Array, stored: Array, operand: Operand) -> None:
    """Stores an input's factors in `out`, computed as `centered` does for weights."""
    if operand.type.quantized:
        np.subtract(stored, out.dtype.type(operand.zero_point), out=out, casting="unsafe")
    else:
        np.copyto(out, stored)


def as_factors(stored: Array, operand: Operand, dtype: np.dtype[Any]) -> Array:
    """Returns an input's factors; the input itself if it needs no conversion."""
    if stored.dtype == dtype:
        return stored
    out = np.empty(stored.shape, dtype)
    read(out, stored, operand)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class PerChannel:
    """Per-channel numbers, tiled so that inner loops over few channels are not short."""

    numbers: Array
    channels: int

    @staticmethod
    def of(numbers: Array) -> PerChannel:
        """Returns the tiling of `numbers`, one per channel."""
        repeats = max(1, _INNER_LENGTH // max(1, numbers.size))
        return PerChannel(np.tile(numbers, repeats), numbers.size)

    def apply(self, ufunc: np.ufunc, sums: Array) -> None:
        """Applies `ufunc` in place to C-contiguous sums whose last axis is the channels."""
        if sums.size == 0:
            return
        width = sums.size
        if width > self.numbers.size:
            width = gcd(width, self.numbers.size)  # a multiple of the channel count
        wide = sums.reshape(-1, width)
        ufunc(wide, self.numbers[:width], out=wide)


@dataclass(frozen=True, slots=True, eq=False)
class RealFinish:
    """Epilogue of real sums: bias, activation, conversion to the output type."""

    bias: PerChannel
    activation: int
    output: Operand

    def receiver(self, out: Array) -> Array:
        """Returns the buffer for the sums of a part of the output: `out` itself if possible."""
        direct = out.dtype == np.float32 and out.flags.c_contiguous
        return out if direct else np.empty(out.shape, np.float32)

    def __call__(self, sums: Array, out: Array) -> None:
        """Finishes `sums` (overwritten, channels last) and stores the results in `out`."""
        self.bias.apply(np.add, sums)
        activate(sums, self.activation)
        if sums is not out:
            encode(sums, self.output, out)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedFinish:
    """Epilogue of integer sums: bias, scale, zero point, activation and rounding in few passes.

    Results are shifted to be positive so that a truncating cast rounds them. Ties round up.
    """

    scale: PerChannel
    offset: PerChannel
    low: float
    high: float
    signed: bool

    def receiver(self, out: Array) -> Array:
        """Returns the accumulator of a block of the output."""
        return np.empty(out.shape, self.scale.numbers.dtype)

    def __call__(self, sums: Array, out: Array) -> None:
        """Finishes `sums` (overwritten, channels last) and stores the results in `out`."""
        self.scale.apply(np.multiply, sums)
        self.offset.apply(np.add, sums)
        sums.clip(self.low, self.high, out=sums)
        unsigned = out.view(np.uint8)
        np.copyto(unsigned, sums, casting="unsafe")
        if self.signed:
            unsigned ^= 0x80


Finish = RealFinish | QuantizedFinish


def finish(
    bias: Array, weights: Operand, activation: int, types: Types, dtype: np.dtype[Any]
) -> Finish:
    """Returns the epilogue for products of `types["input"]` and `weights`, computed in `dtype`."""
    source, output = types["input"], types["output"]
    if not source.type.quantized:
        return RealFinish(PerChannel.of(decode(bias, types["bias"])), activation, output)
    scales = weights.channels.scales if weights.channels else (weights.scale,) * bias.size
    scale = np.array(scales, np.float64) * source.scale / output.scale
    least, greatest = limits(output.type)
    offset = bias * scale + (output.zero_point - least + 0.5)
    low, high = (real / output.scale + output.zero_point for real in activation_range(activation))
    return QuantizedFinish(
        PerChannel.of(scale.astype(dtype)),
        PerChannel.of(offset.astype(dtype)),
        round(max(low, least)) - least + 0.5,
        round(min(high, greatest)) - least + 0.5,
        least < 0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeights:
    """Packed weights [K, N], and the epilogue."""

    matrix: Array
    finish: Finish


def pack(weights: Array, bias: Array, activation: int, types: Types) -> PackedWeights:
    """Packs the weights [N, K] of a fully connected layer."""
    matrix = factors(weights, types["weights"], bias, types["input"], axis=0).T
    return PackedWeights(matrix, finish(bias, types["weights"], activation, types, matrix.dtype))


def fully_connected(
    input: Array, weights: PackedWeights, bias: Array, activation: int, *, types: Types, out: Array
) -> None:
    """Fully connected layer."""
    rows = as_factors(input, types["input"], weights.matrix.dtype)
    sums = weights.finish.receiver(out)
    depth = weights.matrix.shape[0]
    multiply(rows.reshape(out.shape[0], depth), weights.matrix, sums)
    weights.finish(sums, out)


def batch_matmul(
    input1: Array, input2: Array, adj_x: bool = False, adj_y: bool = False, *, out: Array
) -> None:
    """Batched matrix product; adj_x, adj_y transpose."""
    multiply(_matrix(input1, adj_x), _matrix(input2, adj_y), out)


def batch_matmul_quantized(
    input1: Array,
    input2: Array,
    adj_x: bool = False,
    adj_y: bool = False,
    *,
    types: Types,
    out: Array,
) -> None:
    """`batch_matmul` of quantized tensors, on exact integer sums."""
    first, second, output = types["input1"], types["input2"], types["output"]
    depth = input1.shape[-2 if adj_x else -1]
    dtype = exact(depth * max_magnitude(first) * max_magnitude(second))
    sums = np.matmul(
        _matrix(as_factors(input1, first, dtype), adj_x),
        _matrix(as_factors(input2, second, dtype), adj_y),
    )
    scaled(sums, np.float64(first.scale) * second.scale / output.scale, output, out)


def _matrix(tensor: Array, transposed: bool) -> Array:
    return tensor.swapaxes(-1, -2) if transposed else tensor


KERNELS = (
    stored(spec.FULLY_CONNECTED, fully_connected, *DATA, weights=pack),
    real(spec.BATCH_MATMUL, batch_matmul, F32, F16),
    stored(spec.BATCH_MATMUL, batch_matmul, I32),
    stored(spec.BATCH_MATMUL, batch_matmul_quantized, Q8S),
)
