"""Image resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels.resize import nearest
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import TO_NCHW, Perm, identity, permuted


def resize_bilinear(op: Op) -> None:
    """Bilinear interpolation. Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR."""
    layout = identity(4) if op.scalar("layout", default=False) else TO_NCHW
    how = "asymmetric"
    if op.scalar("align_corners", default=False):
        how = "align_corners"
    elif op.scalar("half_pixel_centers", default=False):
        how = "half_pixel"
    sizes = permuted(op.shape("output"), layout)
    value = op.node(
        "Resize",
        op.real("input", layout),
        "",
        "",
        op.sizes(sizes),
        mode="linear",
        coordinate_transformation_mode=how,
    )
    op.deliver(value, layout)


def resize_nearest_neighbor(op: Op) -> None:
    """Nearest-neighbour interpolation, by the reference device's own choice of pixels.

    Source: NDK ANEURALNETWORKS_RESIZE_NEAREST_NEIGHBOR.
    """
    nchw = bool(op.scalar("layout", default=False))
    first = 2 if nchw else 1
    axes = (first, first + 1)
    factors = [divmod(op.shape("output")[axis], op.shape("input")[axis]) for axis in axes]
    if not op.scalar("align_corners", default=False) and not any(rest for _, rest in factors):
        _repeat(op, identity(4) if nchw else TO_NCHW, [factor for factor, _ in factors])
        return
    layout = op.layout("input")
    value = op.stored("input", layout)
    for axis in axes:
        size, wanted = op.shape("input")[axis], op.shape("output")[axis]
        pixels = op.array(nearest(size, wanted, op.scalars()), np.int64)
        value = op.node("Gather", value, pixels, axis=layout.index(axis))
    op.keep(value, layout)


def _repeat(op: Op, layout: Perm, factors: Sequence[int]) -> None:
    """Each pixel a whole number of times: all ways to choose the nearest one agree then."""
    scales = op.array([1, 1, *factors])
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    value = op.node("Resize", op.stored("input", layout), "", scales, mode="nearest", **how)
    op.keep(value, layout)


_DATA = (F32, F16, Q8, Q8S)
ROWS = (
    row(spec.RESIZE_BILINEAR, resize_bilinear, *_DATA),
    row(spec.RESIZE_NEAREST_NEIGHBOR, resize_nearest_neighbor, *_DATA),
)
