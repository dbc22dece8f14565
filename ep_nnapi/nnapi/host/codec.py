"""Numbers behind operand types: stored elements to float32 and back, the one place of each type.

real = scale * (stored - zero point). Only ANEURALNETWORKS_QUANTIZE says what becomes of ties, half
away from zero; elsewhere they go up, which takes fewer passes. All in blocks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand

Real: TypeAlias = NDArray[np.float32]

_BLOCK = 1 << 15
_SIGN, _HALF = np.uint32(1 << 31), np.float32(0.5).view(np.uint32)
_HALVES = (OperandCode.TENSOR_FLOAT16, OperandCode.FLOAT16)
_REALS = (OperandCode.TENSOR_FLOAT32, OperandCode.FLOAT32)


def is_coded(operand: Operand) -> bool:
    """Whether elements must be decoded to become real numbers."""
    return operand.type in _HALVES or operand.type.quantized


def limits(code: OperandCode) -> tuple[int, int]:
    """The least and the greatest stored number of an integer type."""
    info = np.iinfo(code.numpy)
    return int(info.min), int(info.max)


def decode(array: Array, operand: Operand) -> Array:
    """The real numbers that `array` stores, in float32; types that store themselves stay."""
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
    """Stores real numbers as `operand`'s type does."""
    if operand.type.quantized:
        scaled(real, 1 / np.float64(operand.scale), operand, out)
    else:
        np.copyto(out, real, casting="unsafe")


def scaled(numbers: Array, factor: float, operand: Operand, out: Array) -> None:
    """Stores numbers times `factor`, rounded, moved by the zero point and saturated.

    They are moved so that all are positive; then a cast rounds. Ties go up; NaN becomes any number.
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
    """Stores float32 numbers divided by the scale and rounded half away from zero."""
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
    """Parts of both that stay in the cache."""
    if not (numbers.flags.c_contiguous and out.flags.c_contiguous):
        yield numbers, out
        return
    flat, stored = numbers.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK], stored[start : start + _BLOCK]
