"""Padding of sliding windows: LiteRT's operators know SAME and VALID only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.ort_devices.scope import TO_NHWC, permuted

SAME, VALID = 0, 1
"""Padding schemes. Source: LiteRT's schema, Padding."""


def pads(
    op: FlatOp, window: WindowGeometry, taps: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Padding before and after the image's rows, and its columns."""
    shape = op.shape("input")
    _, high, wide, _ = permuted(shape, TO_NHWC) if op.nchw else shape
    return window.height.pads(high, taps[0]), window.width.pads(wide, taps[1])


def scheme(op: FlatOp, window: WindowGeometry, taps: tuple[int, int]) -> int | None:
    """SAME or VALID if that is the window's padding, else None."""
    if window.height.scheme is not None:
        return SAME if window.height.scheme is PaddingCode.SAME else VALID
    found = pads(op, window, taps)
    if found == ((0, 0), (0, 0)):
        return VALID
    same = WindowGeometry(
        replace(window.height, scheme=PaddingCode.SAME),
        replace(window.width, scheme=PaddingCode.SAME),
        window.nchw,
    )
    return SAME if found == pads(op, same, taps) and _keeps_extent(op, window, same, taps) else None


def _keeps_extent(
    op: FlatOp, window: WindowGeometry, same: WindowGeometry, taps: tuple[int, int]
) -> bool:
    """True if both paddings give an output of the same size."""
    shape = op.shape("input")
    _, high, wide, _ = permuted(shape, TO_NHWC) if op.nchw else shape
    ends = ((window.height, same.height, high, taps[0]), (window.width, same.width, wide, taps[1]))
    return all(a.extent(size, t) == b.extent(size, t) for a, b, size, t in ends)


def padded_image(
    op: FlatOp,
    window: WindowGeometry,
    taps: tuple[int, int],
    *,
    signed: bool,
    fill: float | None = None,
) -> tuple[int, int]:
    """The input image in NHWC and the padding scheme; other padding becomes an operator.

    fill   stored number to pad with; None: that of zero
    """
    image = op.image("input", signed=signed)
    found = scheme(op, window, taps)
    if found is not None:
        return image, found
    return pad(op, image, [(0, 0), *pads(op, window, taps), (0, 0)], fill), VALID


def pad(op: FlatOp, value: int, pairs: Sequence[tuple[int, int]], fill: float | None = None) -> int:
    """Add an operator that pads."""
    given = op.graph.tensors[value]
    sizes = tuple(
        size + before + after for size, (before, after) in zip(given.shape, pairs, strict=True)
    )
    result = replace(given, shape=sizes)
    paddings = op.graph.array(np.array(pairs, np.int32))
    if fill is None:
        return op.computed("PAD", [value, paddings], result, "Pad")
    return op.computed("PADV2", [value, paddings, filler(op, value, fill)], result, "PadV2")


def filler(op: FlatOp, value: int, fill: float) -> int:
    """A constant to pad a tensor with, of its type and quantization."""
    given = replace(op.graph.tensors[value], shape=(1,))
    array = np.array([fill], given.dtype)
    return op.graph.constant(given, (array.tobytes(),), lambda: array)
