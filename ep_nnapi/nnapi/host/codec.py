"""Conversion between stored elements and float32: quantize, dequantize, float16.

real = scale * (stored - zero point). Only ANEURALNETWORKS_QUANTIZE specifies rounding of ties: half
away from zero. All others round ties up, which takes fewer passes. Arrays are converted in blocks
that fit into the CPU cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand

Real: TypeAlias = NDArray[np.float32]

_BLOCK = 1 << 15
_SIGN, _HALF = np.uint32(1 << 31), np.float32(0.5).view(np.uint32)
_HALVES = (OperandCode.TENSOR_FLOAT16, OperandCode.FLOAT16)
_REALS = (OperandCode.TENSOR_FLOAT32, OperandCode.FLOAT32)


def is_coded(operand: Operand) -> bool:
    """Return True if elements must be decoded: float16 and quantized types."""
    return operand.type in _HALVES or operand.type.quantized


def limits(code: OperandCode) -> tuple[int, int]:
    """The minimum and maximum stored value of an integer type."""
    info = np.iinfo(code.numpy)
    return int(info.min), int(info.max)


def decode(array: Array, operand: Operand) -> Array:
    """Decode `array` to float32; arrays of types that need no decoding are returned as they are."""
    if not is_coded(operand):
        return array
    if operand.type in _HALVES:
        return array.astype(np.float32)
    if operand.channels is not None:
        shape = [1] * array.ndim
        shape[operand.channels.dim] = -1
        return array * np.array(operand.channels.scales, np.float32).reshape(shape)
    out = array.astype(np.float32)
    out -= np.float32(operand.zero_point)
    out *= np.float32(operand.scale)
    return out


def encode(real: Array, operand: Operand, out: Array) -> None:
    """Encode real numbers to `operand`'s type, into `out`."""
    if operand.type.quantized:
        scaled(real, 1 / np.float64(operand.scale), operand, out)
    else:
        np.copyto(out, real, casting="unsafe")


def scaled(numbers: Array, factor: float, operand: Operand, out: Array) -> None:
    """Store numbers * `factor` + zero point, rounded and saturated, into `out`.

    Values are shifted to be positive, so that a cast rounds. Ties round up; NaN gives any value.
    """
    least, greatest = limits(operand.type)
    dtype = numbers.dtype.type
    times, offset = dtype(factor), dtype(operand.zero_point - least + 0.5)
    unsigned = out.view(f"u{out.itemsize}")
    for part, stored in _blocks(numbers, unsigned):
        moved = np.multiply(part, times)
        moved += offset
        moved.clip(0.5, greatest - least + 0.5, out=moved)
        np.copyto(stored, moved, casting="unsafe")
        if least < 0:
            np.bitwise_xor(stored, unsigned.dtype.type(-least), out=stored)


def quantize(real: Array, operand: Operand, out: Array) -> None:
    """Quantize float32 values into `out`, ties rounded away from zero."""
    least, greatest = limits(operand.type)
    for part, stored in _blocks(real, out):
        quotient = np.divide(part, np.float32(operand.scale), dtype=np.float32)
        half = quotient.view(np.uint32) & _SIGN
        half |= _HALF
        quotient += half.view(np.float32)
        np.trunc(quotient, out=quotient)
        quotient += np.float32(operand.zero_point)
        quotient.clip(least, greatest, out=quotient)
        np.copyto(stored, quotient, casting="unsafe")


def _blocks(numbers: Array, out: Array) -> Iterator[tuple[Array, Array]]:
    """Corresponding blocks of both arrays that fit into the CPU cache."""
    if not (numbers.flags.c_contiguous and out.flags.c_contiguous):
        yield numbers, out
        return
    flat, stored = numbers.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK], stored[start : start + _BLOCK]
