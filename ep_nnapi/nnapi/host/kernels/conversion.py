"""Kernels that convert element types, or produce elements without data inputs."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host import codec
from ep_nnapi.nnapi.host.codec import decode
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8C, Q8S, Q8Y, Q16, Q16Y


def cast(input: Array, *, out: Array) -> None:
    """Casts the stored numbers, truncating fractions; unsigned 8-bit results saturate.

    Source: NDK ANEURALNETWORKS_CAST.
    """
    numbers = np.clip(input, 0, 255) if out.dtype == np.uint8 else input
    np.copyto(out, numbers, casting="unsafe")


def quantize(input: Array, *, types: Types, out: Array) -> None:
    """Quantizes: round(x / scale) + zero point, saturated. Source: NDK ANEURALNETWORKS_QUANTIZE."""
    codec.quantize(decode(input, types["input"]), types["output"], out)


def dequantize(input: Array, *, types: Types, out: Array) -> None:
    """Dequantizes: scale * (x - zero point). Source: NDK ANEURALNETWORKS_DEQUANTIZE."""
    np.copyto(out, decode(input, types["input"]), casting="same_kind")


def fill(dims: Array, value: float, *, out: Array) -> None:
    """Fills the output with one value. Source: NDK ANEURALNETWORKS_FILL."""
    out.fill(value)


def rank(input: Array, *, out: Array) -> None:
    """Number of dimensions. Source: NDK ANEURALNETWORKS_RANK."""
    out.fill(input.ndim)


KERNELS = (
    stored(spec.CAST, cast, BOOL8, F32, F16, I32, Q8, Q8S, Q8Y, Q16, Q16Y),
    stored(spec.QUANTIZE, quantize, F32, F16),
    stored(spec.DEQUANTIZE, dequantize, Q8, Q8S, Q8Y, Q8C),
    stored(spec.FILL, fill, F32, F16, I32),
    stored(spec.RANK, rank),
)
