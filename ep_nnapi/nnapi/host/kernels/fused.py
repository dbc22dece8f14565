"""The activation that an operation may end with, on real numbers."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.value import Array

RANGES: dict[int, tuple[float | None, float | None]] = {
    FuseCode.NONE: (None, None),
    FuseCode.RELU: (0.0, None),
    FuseCode.RELU1: (-1.0, 1.0),
    FuseCode.RELU6: (0.0, 6.0),
}
"""Least and greatest result by FuseCode. Source: NDK FuseCode."""


def activation_range(activation: int) -> tuple[float | None, float | None]:
    """Least and greatest result after that activation; raises ShapeError for an unknown one."""
    if activation not in RANGES:
        raise ShapeError(f"activation {activation} is none of 0 to 3")
    return RANGES[activation]


def activate(out: Array, activation: int) -> None:
    """Applies the activation in place."""
    if activation == FuseCode.NONE:
        return
    low, high = activation_range(activation)
    if high is None:
        np.maximum(out, out.dtype.type(0), out=out)
    else:
        np.clip(out, low, high, out=out)
