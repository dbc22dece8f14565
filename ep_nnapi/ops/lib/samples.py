"""Where the elements of a resized axis come from, in ONNX's terms and in NNAPI's.

Positions are float32, as ONNX Runtime has them: elsewhere ties between two elements fall otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.errors import Reason
from ep_nnapi.graph.value import Array
from ep_nnapi.ops.lib.node import Node

ONE, HALF = np.float32(1), np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Resized:
    """An axis of `size` that becomes `out`, by `scale`; `start` and `end` crop it (0 to 1)."""

    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def factor(self) -> np.float32:
        """The scale as it is computed with."""
        return np.float32(self.scale)

    @property
    def exact(self) -> bool:
        """Whether the output is exactly as large as the scale says, not rounded."""
        return float(self.factor) * self.size == self.out

    @property
    def places(self) -> Array:
        """The output's indexes."""
        return np.arange(self.out, dtype=np.float32)

    @property
    def unchanged(self) -> bool:
        """Whether the axis stays as it is."""
        return self.size == self.out and self.scale == 1


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """One element for each of the output, times a weight (None: 1)."""

    indexes: Array
    weights: Array | None = None


Transform: TypeAlias = Callable[[Resized], Array]


def asymmetric(axis: Resized) -> Array:
    """Without centres."""
    return axis.places / axis.factor


def half_pixel(axis: Resized) -> Array:
    """Centres of pixels on one another."""
    return (axis.places + HALF) / axis.factor - HALF


def pytorch_half_pixel(axis: Resized) -> Array:
    """As `half_pixel`, one pixel being the first."""
    return half_pixel(axis) if axis.out > 1 else axis.places


def half_pixel_symmetric(axis: Resized) -> Array:
    """As `half_pixel`, centred where the size was rounded."""
    exact = axis.factor * np.float32(axis.size)
    offset = np.float32(axis.size) * HALF * (ONE - np.float32(axis.out) / exact)
    return half_pixel(axis) + offset


def tf_half_pixel_for_nn(axis: Resized) -> Array:
    """Centres of the output's pixels."""
    return (axis.places + HALF) / axis.factor


def align_corners(axis: Resized) -> Array:
    """First on first, last on last."""
    if axis.out == 1:
        return axis.places
    return axis.places * np.float32(axis.size - 1) / np.float32(axis.out - 1)


def tf_crop_and_resize(axis: Resized) -> Array:
    """First on the start of the crop, last on its end."""
    start, end, last = np.float32(axis.start), np.float32(axis.end), np.float32(axis.size - 1)
    if axis.out == 1:
        return HALF * (start + end) * last + axis.places
    return start * last + axis.places * (end - start) * last / np.float32(axis.out - 1)


TRANSFORMS: Mapping[str, Transform] = {
    "asymmetric": asymmetric,
    "half_pixel": half_pixel,
    "pytorch_half_pixel": pytorch_half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "tf_half_pixel_for_nn": tf_half_pixel_for_nn,
    "align_corners": align_corners,
    "tf_crop_and_resize": tf_crop_and_resize,
}
"""By `coordinate_transformation_mode`. Source: ONNX Resize-11 to Resize-19."""

TIE = 1e-6
"""How near the middle of two elements ONNX Runtime takes a position to be in the middle."""


def _to_nearest(at: Array, of_two: int) -> Array:
    """The nearest integers; of two as near the lower (0) or the upper (1)."""
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
"""By `nearest_mode`. Source: ONNX Resize-11 to Resize-19."""


NAMES: Mapping[str, Collection[str]] = {
    "mode": ("nearest", "linear", "cubic"),
    "coordinate_transformation_mode": TRANSFORMS,
    "nearest_mode": ROUNDINGS,
}
"""By attribute the names that ONNX has. Source: ONNX Resize-11 to Resize-19."""


def named(n: Node, attribute: str, default: str) -> str:
    """The attribute, one of the names that ONNX has for it."""
    given = n.text(attribute, default)
    known = ", ".join(NAMES[attribute])
    n.require(given in NAMES[attribute], Reason.ATTRIBUTE, f"{attribute} is {given!r}; use {known}")
    return given


def nearest(axis: Resized, at: Array, rounding: str) -> Tap:
    """The element that a position is rounded to."""
    if rounding == "simple":  # what ONNX Runtime does where no rounding is stated
        rounding = "ceil" if axis.scale < 1 else "floor"
    return Tap(np.clip(ROUNDINGS[rounding](at), 0, axis.size - 1).astype(np.int32))


def between_two(axis: Resized, at: Array, rounding: str) -> bool:
    """Whether a position is so near the border of two elements that rounding errors decide."""
    error = 4 * np.finfo(np.float32).eps * axis.size
    borders = at + HALF if rounding.startswith("round") else at
    return bool(np.any(np.abs(borders - np.rint(borders)) <= error))


def linear(axis: Resized, at: Array) -> Sequence[Tap]:
    """The elements before and after a position."""
    at = np.clip(at, 0, axis.size - 1)
    first = np.floor(at).astype(np.int32)
    share = at - first.astype(np.float32)
    second = np.minimum(first + 1, axis.size - 1)
    return (Tap(first, ONE - share), Tap(second, share))


def cubic(axis: Resized, at: Array, a: float, *, exclude_outside: bool) -> Sequence[Tap]:
    """The two elements before and the two after a position (Keys 1981, with parameter `a`)."""
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


def without_idle(taps: Sequence[Tap]) -> Sequence[Tap]:
    """The taps with weights; as they add up to 1, the only one needs none."""
    kept = [t for t in taps if t.weights is None or np.any(t.weights)]
    return (Tap(kept[0].indexes),) if len(kept) == 1 else kept


@dataclass(frozen=True, slots=True)
class Scheme:
    """What NNAPI's resizing operations are told about positions."""

    align_corners: bool = False
    half_pixel_centers: bool = False

    def positions(self, axis: Resized, centre: float = 0.5) -> Array:
        """Where NNAPI sees the output's pixels; `centre` of an input's pixel."""
        if self.align_corners and axis.out > 1:
            return axis.places * (np.float32(axis.size - 1) / np.float32(axis.out - 1))
        scale = np.float32(axis.size) / np.float32(axis.out)
        if self.half_pixel_centers:
            return (axis.places + HALF) * scale - np.float32(centre)
        return axis.places * scale

    def nearest(self, axis: Resized) -> Array:
        """The elements that RESIZE_NEAREST_NEIGHBOR takes."""
        at = self.positions(axis, centre=0.0) + (HALF if self.align_corners else 0)
        return np.clip(np.floor(at), 0, axis.size - 1).astype(np.int32)


SCHEMES = (Scheme(), Scheme(half_pixel_centers=True), Scheme(align_corners=True))
"""Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR, ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR."""


def same_positions(axis: Resized, first: Array, second: Array) -> bool:
    """Whether two positions in the image differ by no more than float32's rounding of them."""
    last = axis.size - 1
    rounding = 4 * np.finfo(np.float32).eps * axis.size
    apart = np.abs(np.clip(first, 0, last) - np.clip(second, 0, last))
    return bool(np.all(apart <= rounding))
