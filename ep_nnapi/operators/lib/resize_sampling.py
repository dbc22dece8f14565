"""Sampling positions and weights of a resized axis, as defined by ONNX and by NNAPI.

Positions are computed in float32 as in ONNX Runtime, because other precisions break ties between
two elements differently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators.lib.node import Node

ONE, HALF = np.float32(1), np.float32(0.5)


@frozen
class Resized:
    """A resized axis: input `size`, output size `out`, `scale`; crop `start` to `end` (0 to 1)."""

    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def factor(self) -> np.float32:
        """The scale in float32, in which positions are computed."""
        return np.float32(self.scale)

    @property
    def exact(self) -> bool:
        """True if size * scale is exactly the output size, without rounding."""
        return float(self.factor) * self.size == self.out

    @property
    def indexes(self) -> Array:
        """The indexes of the output's elements, 0 to out - 1, as float32."""
        return np.arange(self.out, dtype=np.float32)

    @property
    def unchanged(self) -> bool:
        """True if the axis is not resized."""
        return self.size == self.out and self.scale == 1


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """One input element for each output element, multiplied by a weight (None: 1)."""

    indexes: Array
    weights: Array | None = None


Transform: TypeAlias = Callable[[Resized], Array]


def asymmetric(axis: Resized) -> Array:
    """Return positions x / scale: pixel corners aligned at 0."""
    return axis.indexes / axis.factor


def half_pixel(axis: Resized) -> Array:
    """Return positions (x + 0.5) / scale - 0.5: pixel centres aligned."""
    return (axis.indexes + HALF) / axis.factor - HALF


def pytorch_half_pixel(axis: Resized) -> Array:
    """Return positions as `half_pixel`, but 0 if the output has one element."""
    return half_pixel(axis) if axis.out > 1 else axis.indexes


def half_pixel_symmetric(axis: Resized) -> Array:
    """Return positions as `half_pixel`, shifted to stay centred if the output size was rounded."""
    exact = axis.factor * np.float32(axis.size)
    offset = np.float32(axis.size) * HALF * (ONE - np.float32(axis.out) / exact)
    return half_pixel(axis) + offset


def tf_half_pixel_for_nn(axis: Resized) -> Array:
    """Return positions (x + 0.5) / scale."""
    return (axis.indexes + HALF) / axis.factor


def align_corners(axis: Resized) -> Array:
    """Return positions with the first and last elements of input and output aligned."""
    if axis.out == 1:
        return axis.indexes
    return axis.indexes * np.float32(axis.size - 1) / np.float32(axis.out - 1)


def tf_crop_and_resize(axis: Resized) -> Array:
    """Return positions with the first and last output elements on the crop's start and end."""
    start, end, last = np.float32(axis.start), np.float32(axis.end), np.float32(axis.size - 1)
    if axis.out == 1:
        return HALF * (start + end) * last + axis.indexes
    return start * last + axis.indexes * (end - start) * last / np.float32(axis.out - 1)


TRANSFORMS: Mapping[str, Transform] = {
    "asymmetric": asymmetric,
    "half_pixel": half_pixel,
    "pytorch_half_pixel": pytorch_half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "tf_half_pixel_for_nn": tf_half_pixel_for_nn,
    "align_corners": align_corners,
    "tf_crop_and_resize": tf_crop_and_resize,
}
"""Positions by `coordinate_transformation_mode`. Source: ONNX Resize-11 to Resize-19."""

TIE = 1e-6
"""Tolerance within which ONNX Runtime treats a position as midway between two elements."""


def _to_nearest(at: Array, of_two: int) -> Array:
    """Return the nearest integers; ties round down if `of_two` is 0, up if it is 1."""
    below = np.floor(at)
    tie = np.abs(at - below - HALF) <= TIE
    found: Array = np.where(tie, below + of_two, np.rint(at))
    return found


ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: _to_nearest(at, 0),
    "round_prefer_ceil": lambda at: _to_nearest(at, 1),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""Rounding by `nearest_mode`. Source: ONNX Resize-11 to Resize-19."""


NAMES: Mapping[str, Collection[str]] = {
    "mode": ("nearest", "linear", "cubic"),
    "coordinate_transformation_mode": TRANSFORMS,
    "nearest_mode": ROUNDINGS,
}
"""The values that ONNX defines for each attribute. Source: ONNX Resize-11 to Resize-19."""


def enumerated_text(n: Node, attribute: str, default: str) -> str:
    """Return the attribute; raise Reject(ATTRIBUTE) unless ONNX defines its value."""
    given = n.text(attribute, default)
    known = ", ".join(NAMES[attribute])
    n.require(given in NAMES[attribute], Reason.ATTRIBUTE, f"{attribute} is {given!r}; use {known}")
    return given


def nearest(axis: Resized, at: Array, rounding: str) -> Tap:
    """Return the tap of each position rounded to an element."""
    if rounding == "simple":  # ONNX Runtime's rounding where the operator defines none
        rounding = "ceil" if axis.scale < 1 else "floor"
    return Tap(np.clip(ROUNDINGS[rounding](at), 0, axis.size - 1).astype(np.int32))


def is_near_tie(axis: Resized, at: Array, rounding: str) -> bool:
    """True if a position is so near the border of two elements that rounding errors decide."""
    error = 4 * np.finfo(np.float32).eps * axis.size
    borders = at + HALF if rounding.startswith("round") else at
    return bool(np.any(np.abs(borders - np.rint(borders)) <= error))


def linear(axis: Resized, at: Array) -> Sequence[Tap]:
    """Return the taps of linear interpolation: the elements before and after each position.

    At the end both are the last element, by half: times 0, an infinite one would be NaN.
    """
    at = np.clip(at, 0, axis.size - 1)
    first = np.floor(at).astype(np.int32)
    share = at - first.astype(np.float32)
    second = np.minimum(first + 1, axis.size - 1)
    if share.any():
        share[first == second] = HALF
    return (Tap(first, ONE - share), Tap(second, share))


def cubic(axis: Resized, at: Array, a: float, *, exclude_outside: bool) -> Sequence[Tap]:
    """Return the four taps of cubic interpolation (Keys 1981, with parameter `a`).

    They are two elements before and two after each position.
    """
    first = np.floor(at)
    share = at - first
    near = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (share, 1 - share)]
    far = [((a * s - 5 * a) * s + 8 * a) * s - 4 * a for s in (1 + share, 2 - share)]
    weights = np.array([far[0], near[0], near[1], far[1]], np.float32)
    indexes = first.astype(np.int32) + np.arange(-1, 3, dtype=np.int32)[:, np.newaxis]
    if exclude_outside:
        weights[(indexes < 0) | (indexes >= axis.size)] = 0
        weights /= weights.sum(axis=0)
    inside = np.clip(indexes, 0, axis.size - 1)
    return [Tap(i, w) for i, w in zip(inside, weights, strict=True)]


def nonzero_taps(taps: Sequence[Tap]) -> Sequence[Tap]:
    """Return the taps with nonzero weights; a single one gets no weight, as weights sum to 1."""
    kept = [t for t in taps if t.weights is None or np.any(t.weights)]
    return (Tap(kept[0].indexes),) if len(kept) == 1 else kept


@frozen
class CoordinateScheme:
    """The coordinate options of NNAPI's resize operations."""

    align_corners: bool = False
    half_pixel_centers: bool = False

    def positions(self, axis: Resized, centre: float = 0.5) -> Array:
        """Return the input positions that NNAPI computes; `centre`: centre of an input pixel."""
        if self.align_corners and axis.out > 1:
            return axis.indexes * (np.float32(axis.size - 1) / np.float32(axis.out - 1))
        scale = np.float32(axis.size) / np.float32(axis.out)
        if self.half_pixel_centers:
            return (axis.indexes + HALF) * scale - np.float32(centre)
        return axis.indexes * scale

    def nearest(self, axis: Resized) -> Array:
        """Return the indexes of the elements that RESIZE_NEAREST_NEIGHBOR selects."""
        at = self.positions(axis, centre=0.0) + (HALF if self.align_corners else 0)
        return np.clip(np.floor(at), 0, axis.size - 1).astype(np.int32)


COORDINATE_SCHEMES = (
    CoordinateScheme(),
    CoordinateScheme(half_pixel_centers=True),
    CoordinateScheme(align_corners=True),
)
"""Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR, ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR."""


def same_positions(axis: Resized, first: Array, second: Array) -> bool:
    """True if positions, clipped to the image, differ by no more than float32 rounding errors."""
    last = axis.size - 1
    rounding = 4 * np.finfo(np.float32).eps * axis.size
    apart = np.abs(np.clip(first, 0, last) - np.clip(second, 0, last))
    return bool(np.all(apart <= rounding))
