"""What all sums of products share: how factors are read, and what follows the sum.

Quantized factors are taken as integers, so a sum is exact: in float32 while it stays below 2**24,
which the weights at hand decide, else in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.codec import decode, encode, limits
from ep_nnapi.nnapi.host.kernel import Types
from ep_nnapi.nnapi.host.kernels.fused import activate, activation_range
from ep_nnapi.nnapi.model import Operand

_EXACT = 2**24
"""Integers up to here are exact in float32."""
_STRETCH = 1024
"""Elements that one inner loop should at least have."""


def centered(stored: Array, operand: Operand) -> Array:
    """Weights as the factors of a sum: real, or integers without their zero point, in float32."""
    if not operand.type.quantized:
        return decode(stored, operand)
    return np.subtract(stored, np.float32(operand.zero_point), dtype=np.float32)


def factors(
    weights: Array, weights_type: Operand, bias: Array, source: Operand, axis: int
) -> Array:
    """`centered` weights, in float64 when a sum of float32 might not be exact.

    axis   along which the sums differ: the output's channels
    """
    found = centered(weights, weights_type)
    if not source.type.quantized or found.size == 0:
        return found
    others = tuple(i for i in range(found.ndim) if i != axis)
    sums = np.abs(found).sum(axis=others, dtype=np.float64) * furthest(source)
    return found.astype(exact(float(np.max(sums + np.abs(bias.astype(np.float64))))), copy=False)


def furthest(operand: Operand) -> int:
    """How far from the zero point a stored number may be."""
    low, high = limits(operand.type)
    return max(operand.zero_point - low, high - operand.zero_point)


def exact(greatest: float) -> np.dtype[Any]:
    """The type in which sums of integers up to `greatest` are exact."""
    return np.dtype(np.float32 if greatest < _EXACT else np.float64)


def read(out: Array, stored: Array, operand: Operand) -> None:
    """Puts an input's factors, as `centered` has them for weights, into `out`."""
    if operand.type.quantized:
        np.subtract(stored, out.dtype.type(operand.zero_point), out=out, casting="unsafe")
    else:
        np.copyto(out, stored)


def as_factors(stored: Array, operand: Operand, dtype: np.dtype[Any]) -> Array:
    """An input's factors; the input itself where it holds them already."""
    if stored.dtype == dtype:
        return stored
    out = np.empty(stored.shape, dtype)
    read(out, stored, operand)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class PerChannel:
    """A number for each channel, repeated so that loops over few channels are not short."""

    numbers: Array
    channels: int

    @staticmethod
    def of(numbers: Array) -> PerChannel:
        """`numbers`, one a channel."""
        repeats = max(1, _STRETCH // max(1, numbers.size))
        return PerChannel(np.tile(numbers, repeats), numbers.size)

    def apply(self, ufunc: np.ufunc, sums: Array) -> None:
        """Applies it in place to C-contiguous sums whose last dimension is the channels."""
        if sums.size == 0:
            return
        width = sums.size
        if width > self.numbers.size:
            width = gcd(width, self.numbers.size)  # a multiple of the channels, as both are
        wide = sums.reshape(-1, width)
        ufunc(wide, self.numbers[:width], out=wide)


@dataclass(frozen=True, slots=True, eq=False)
class RealFinish:
    """After a sum of real numbers: bias, activation, the output's type."""

    bias: PerChannel
    activation: int
    output: Operand

    def receiver(self, out: Array) -> Array:
        """The array that takes the sums for a part of the output: the output, if it can."""
        direct = out.dtype == np.float32 and out.flags.c_contiguous
        return out if direct else np.empty(out.shape, np.float32)

    def __call__(self, sums: Array, out: Array) -> None:
        """Stores in `out` what follows from `sums`, which it overwrites; channels are last."""
        self.bias.apply(np.add, sums)
        activate(sums, self.activation)
        if sums is not out:
            encode(sums, self.output, out)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedFinish:
    """After a sum of integers: bias, scale, zero point, activation, rounding, in few passes.

    Numbers are moved so that all are positive; then a cast rounds. Ties go up.
    """

    scale: PerChannel
    offset: PerChannel
    low: float
    high: float
    signed: bool

    def receiver(self, out: Array) -> Array:
        """An array that takes the sums for a part of the output."""
        return np.empty(out.shape, self.scale.numbers.dtype)

    def __call__(self, sums: Array, out: Array) -> None:
        """Stores in `out` what follows from `sums`, which it overwrites; channels are last."""
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
    """What follows the sums of products of `types["input"]` with `weights`, computed in `dtype`."""
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
