"""Numbers behind operand types: stored elements to float32 and back, the one place of each type.

real = scale * (stored - zero point). Values are rounded half away from zero and saturated, as the
NDK documents for ANEURALNETWORKS_QUANTIZE, in blocks that stay in the cache.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.value import Array

Real: TypeAlias = NDArray[np.float32]

_BLOCK = 1 << 14
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
    out = np.subtract(array, np.float32(operand.zero_point), dtype=np.float32)
    return np.multiply(out, np.float32(operand.scale), out=out)


def encode(real: Array, operand: Operand, out: Array) -> None:
    """Stores real numbers as `operand`'s type does."""
    if not operand.type.quantized:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out, real, casting="unsafe")
    elif real.flags.c_contiguous and out.flags.c_contiguous:
        flat, stored = real.reshape(-1), out.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            quantize(flat[start : start + _BLOCK], operand, stored[start : start + _BLOCK])
    else:
        quantize(real, operand, out)


def quantize(real: Array, operand: Operand, out: Array) -> None:
    """Stores saturate(round(real / scale) + zero point)."""
    scaled = np.divide(real, np.float32(operand.scale), dtype=np.float32)
    saturate(scaled, operand, out)


def saturate(scaled: Array, operand: Operand, out: Array) -> None:
    """Stores `scaled`, which it overwrites, rounded, moved by the zero point and saturated."""
    low, high = limits(operand.type)
    half = np.copysign(np.float32(0.5), scaled)
    scaled += half
    np.trunc(scaled, out=scaled)
    scaled += scaled.dtype.type(operand.zero_point)
    np.clip(scaled, low, high, out=scaled)
    with np.errstate(invalid="ignore"):
        np.copyto(out, scaled, casting="unsafe")
