"""Fused epilogue activations, on real numbers."""

from __future__ import annotations

from math import inf

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.shapes import ShapeError

RANGES: dict[int, tuple[float, float]] = {
    FuseCode.NONE: (-inf, inf),
    FuseCode.RELU: (0.0, inf),
    FuseCode.RELU1: (-1.0, 1.0),
    FuseCode.RELU6: (0.0, 6.0),
}
"""Least and greatest result of each activation. Source: NDK FuseCode."""


def activation_range(activation: int) -> tuple[float, float]:
    """Returns the least and greatest result of an activation; ShapeError for an unknown one."""
    if activation not in RANGES:
        raise ShapeError(f"activation {activation} is none of 0 to 3")
    return RANGES[activation]


def activate(out: Array, activation: int) -> None:
    """Applies the activation in place."""
    if activation != FuseCode.NONE:
        clip(out, *activation_range(activation), out)


def clip(input: Array, low: float, high: float, out: Array) -> None:
    """Clips to a range that may be infinite.

    Uses the clip method, which is fastest: numpy's maximum with one number takes twice as long.
    """
    if input.dtype.kind == "i":
        info = np.iinfo(input.dtype)
        low, high = int(max(info.min, low)), int(min(info.max, high))
    input.clip(low, high, out=out)
