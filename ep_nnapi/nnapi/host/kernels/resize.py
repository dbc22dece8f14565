"""Images in another size."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import real, stored
from ep_nnapi.nnapi.host.kernels.windows import NHWC
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.value import Array


def resize_bilinear(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Each pixel between its four neighbours. Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR."""
    nchw = bool(scalars.get("layout", False))
    image, result = (input.transpose(NHWC), out.transpose(NHWC)) if nchw else (input, out)
    high = _between(image, _positions(image.shape[1], result.shape[1], scalars), 1)
    np.copyto(result, _between(high, _positions(image.shape[2], result.shape[2], scalars), 2))


def _between(image: Array, at: Array, axis: int) -> Array:
    """The image at fractional positions along `axis`."""
    at = np.clip(at, 0, image.shape[axis] - 1)
    first = np.floor(at).astype(np.intp)
    second = np.minimum(first + 1, image.shape[axis] - 1)
    shape = [1] * image.ndim
    shape[axis] = -1
    weight = (at - first.astype(np.float32)).reshape(shape)
    found: Array = np.take(image, first, axis) * (1 - weight)
    found += np.take(image, second, axis) * weight
    return found


def resize_nearest_neighbor(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Each pixel its nearest one. Source: NDK ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR."""
    first = 2 if scalars.get("layout", False) else 1
    rows = _nearest(input.shape[first], out.shape[first], scalars)
    columns = _nearest(input.shape[first + 1], out.shape[first + 1], scalars)
    np.take(np.take(input, rows, first), columns, first + 1, out=out, mode="clip")


def _nearest(size: int, wanted: int, scalars: dict[str, Scalar]) -> Array:
    at = _positions(size, wanted, scalars, center=0)
    aligned = bool(scalars.get("align_corners", False))
    whole = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
    return np.clip(whole, 0, size - 1).astype(np.intp)


def _positions(size: int, wanted: int, scalars: dict[str, Scalar], center: float = 0.5) -> Array:
    """Where the `wanted` output pixels are among `size` input pixels, in float32 as Android does.

    center   where an input pixel's value is within it, when the output's are in theirs
    """
    places = np.arange(wanted, dtype=np.float32)
    if scalars.get("align_corners", False) and wanted > 1:
        return places * (np.float32(size - 1) / np.float32(wanted - 1))
    scale = np.float32(size) / np.float32(wanted)
    if scalars.get("half_pixel_centers", False):
        return (places + np.float32(0.5)) * scale - np.float32(center)
    return places * scale


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    real(spec.RESIZE_BILINEAR, resize_bilinear, *_DATA),
    stored(spec.RESIZE_NEAREST_NEIGHBOR, resize_nearest_neighbor, *_DATA),
)
