"""Image resize kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real, stored
from ep_nnapi.nnapi.host.kernels.windows import NCHW, channels_last
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

_BLOCK = 1 << 17
"""Bytes of output computed at once."""


def resize_bilinear(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Bilinear interpolation. Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR."""
    images, results = channels_last(input, out, bool(scalars.get("layout", False)))
    rows = _Interpolation.of(images.shape[1], results.shape[1], scalars)
    columns = _Interpolation.of(images.shape[2], results.shape[2], scalars)
    step = max(1, _BLOCK // max(1, results[0, 0].nbytes if results.size else 1))
    for image, result in zip(images, results, strict=True):
        for start in range(0, len(result), step):
            block = slice(start, start + step)
            columns.of_axis(rows.of_axis(image, 0, block), 1, slice(None), result[block])
    if results is not out:
        np.copyto(out, results.transpose(NCHW))


@dataclass(frozen=True, slots=True, eq=False)
class _Interpolation:
    """For each output pixel its two input neighbours along an axis, and the second one's weight."""

    first: Array
    second: Array
    weight: Array

    @staticmethod
    def of(size: int, wanted: int, scalars: dict[str, Scalar]) -> _Interpolation:
        """Returns the neighbours of `wanted` output pixels among `size` input pixels."""
        at = np.clip(_positions(size, wanted, scalars, dtype=np.float64), 0, size - 1)
        first = np.floor(at).astype(np.intp)
        weight = (at - first).astype(np.float32)
        return _Interpolation(first, np.minimum(first + 1, size - 1), weight)

    def of_axis(self, image: Array, axis: int, wanted: slice, out: Array | None = None) -> Array:
        """Interpolates [H, W, C] along one axis; `wanted` selects the output pixels."""
        weight = self.weight[wanted].reshape((-1,) + (1,) * (2 - axis))
        found: Array = np.take(image, self.first[wanted], axis)
        other = np.take(image, self.second[wanted], axis)
        other -= found
        other *= weight
        target = found if out is None else out
        np.add(found, other, out=target)
        return target


def resize_nearest_neighbor(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Nearest-neighbour interpolation. Source: NDK ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR."""
    first = 2 if scalars.get("layout", False) else 1
    rows = nearest(input.shape[first], out.shape[first], scalars)
    columns = nearest(input.shape[first + 1], out.shape[first + 1], scalars)
    np.take(np.take(input, rows, first), columns, first + 1, out=out, mode="clip")


def nearest(size: int, wanted: int, scalars: dict[str, Scalar]) -> Array:
    """Return the input pixel of each of `wanted` output pixels along an axis of `size`."""
    at = _positions(size, wanted, scalars, center=0)
    aligned = bool(scalars.get("align_corners", False))
    whole = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
    return np.clip(whole, 0, size - 1).astype(np.intp)


def _positions(
    size: int,
    wanted: int,
    scalars: dict[str, Scalar],
    center: float = 0.5,
    dtype: type[np.floating[Any]] = np.float32,
) -> Array:
    """Returns the input coordinates of `wanted` output pixels among `size` input pixels.

    center   offset of the sampling point in an input pixel, with half_pixel_centers
    dtype    float32 as on Android; float64 where the result need not select the same pixel
    """
    places: Array = np.arange(wanted, dtype=dtype)
    if scalars.get("align_corners", False) and wanted > 1:
        places *= dtype(size - 1) / dtype(wanted - 1)
        return places
    half = bool(scalars.get("half_pixel_centers", False))
    places += dtype(0.5 if half else 0)
    places *= dtype(size) / dtype(wanted)
    places -= dtype(center if half else 0)
    return places


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    real(spec.RESIZE_BILINEAR, resize_bilinear, *_DATA),
    stored(spec.RESIZE_NEAREST_NEIGHBOR, resize_nearest_neighbor, *_DATA),
)
