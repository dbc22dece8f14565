"""Pooling."""

from __future__ import annotations

import numpy as np

from ep_nnapi.litert.flat_graph import Option
from ep_nnapi.litert.operation import FlatLowering, FlatOp
from ep_nnapi.litert.windows import padded_image, pads, scheme
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import is_coded, require


def max_pool_2d(op: FlatOp) -> None:
    """Max pooling; other padding than SAME is with the least number, which no window selects.

    Source: NDK ANEURALNETWORKS_MAX_POOL_2D.
    """
    op.same_quantization("input")
    window, taps = _window(op)
    for (before, after), size in zip(pads(op, window, taps), taps, strict=True):
        require(max(before, after) < size, "a window lies in the padding only")
    signed = op.signed("input")
    least = float(np.finfo(np.float32).min)
    if is_coded(op.operand("input")):
        least = -128 if signed else 0
    image, padding = padded_image(op, window, taps, signed=signed, fill=least)
    _pool(op, "MAX_POOL_2D", image, signed=signed, **_fields(op, window, taps, padding))


def _averaging(operator: str) -> FlatLowering:
    """Pools that leave padding out of the mean, which LiteRT does with its own padding only."""

    def lower(op: FlatOp) -> None:
        op.same_quantization("input")
        window, taps = _window(op)
        padding = scheme(op, window, taps)
        require(padding is not None, "its padding is neither SAME nor VALID")
        signed = op.signed("input")
        image = op.image("input", signed=signed)
        _pool(op, operator, image, signed=signed, **_fields(op, window, taps, padding or 0))

    return lower


def _window(op: FlatOp) -> tuple[WindowGeometry, tuple[int, int]]:
    taps = (op.number("filter_height"), op.number("filter_width"))
    return WindowGeometry.of(**op.scalars()), taps


def _fields(
    op: FlatOp, window: WindowGeometry, taps: tuple[int, int], padding: int
) -> dict[str, Option]:
    return {
        "padding": padding,
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "filterHeight": taps[0],
        "filterWidth": taps[1],
        "fusedActivationFunction": op.number("activation"),
    }


def _pool(op: FlatOp, operator: str, image: int, *, signed: bool, **fields: Option) -> None:
    op.finish_image(operator, [image], "Pool2D", signed=signed, **fields)


ROWS = (
    row(spec.MAX_POOL_2D, max_pool_2d, F32, Q8, Q8S),
    row(spec.AVERAGE_POOL_2D, _averaging("AVERAGE_POOL_2D"), F32, Q8, Q8S),
    row(spec.L2_POOL_2D, _averaging("L2_POOL_2D"), F32),
)
