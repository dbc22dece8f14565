"""Regions of interest (ROI): regions of images resampled to one size."""

from __future__ import annotations

from functools import cache

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.ort_devices.lowering.boxes import checked_batches, checked_boxes
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import TO_NCHW, Perm, identity, permuted, require

_MOST = 1024
"""Greatest side of an image whose bins are compared, which takes its square of comparisons."""


def roi_align(op: Op) -> None:
    """Means of interpolated points, with the corners of pixels at whole numbers.

    Source: NDK ANEURALNETWORKS_ROI_ALIGN.
    """
    counts = {op.number(f"{side}_sampling_points") for side in ("height", "width")}
    require(len(counts) == 1, "the numbers of sampling points differ")
    layout = _layout(op)
    height, width = permuted(op.shape("output"), layout)[2:]
    bottom, right = permuted(op.shape("input"), layout)[2:]
    # Beyond the last pixel ONNX Runtime reads zeros: such regions begin there, all are that pixel
    ends = op.array([right - 1, bottom - 1, right, bottom])
    value = op.node(
        "RoiAlign",
        op.real("input", layout),
        op.node("Min", _regions(op, layout), ends),
        op.node("Cast", checked_batches(op, "input"), to=TensorProto.INT64),
        coordinate_transformation_mode="output_half_pixel",
        mode="avg",
        output_height=height,
        output_width=width,
        sampling_ratio=counts.pop(),
        spatial_scale=1.0,
    )
    op.deliver(value, layout)


def roi_pooling(op: Op) -> None:
    """Maxima of bins of whole pixels; a bin without pixels is zero.

    Source: NDK ANEURALNETWORKS_ROI_POOLING.
    """
    layout = _layout(op)
    bins, sizes = (permuted(op.shape(name), layout)[2:] for name in ("output", "input"))
    for size, count in zip(sizes, bins, strict=True):
        require(size <= _MOST, f"the image has more than {_MOST} pixels in a row")
        require(same_bins(size, count), f"{count} bins in {size} pixels are rounded otherwise")
    batches = op.node("Cast", checked_batches(op, "input"), to=TensorProto.FLOAT)
    column = op.node("Unsqueeze", batches, op.sizes([1]))
    rois = op.node("Concat", column, _regions(op, layout), axis=1)
    value = op.node("MaxRoiPool", op.real("input", layout), rois, pooled_shape=bins)
    op.deliver(value, layout)


def _layout(op: Op) -> Perm:
    """The permutation of the operands to NCHW."""
    return identity(4) if op.scalar("layout") else TO_NCHW


def _regions(op: Op, layout: Perm) -> str:
    """The regions in pixels; a run fails for one that leaves its image."""
    height, width = permuted(op.shape("input"), layout)[2:]
    ratios = np.array([op.scalar("width_ratio"), op.scalar("height_ratio")] * 2, np.float32)
    scales = op.array(np.float32(1) / ratios)
    regions = op.node("Mul", checked_boxes(op, "rois"), scales)
    within = [
        op.node("GreaterOrEqual", regions, op.array(0)),
        op.node("LessOrEqual", regions, op.array([width, height, width, height])),
    ]
    return op.checked(regions, within, f"a region is not within an image of {height} x {width}")


@cache
def same_bins(size: int, count: int) -> bool:
    """True if all regions along a side of `size` pixels have the bins that NNAPI gives them.

    NNAPI adds the first pixel before it rounds the ends of bins, ONNX Runtime afterwards, both in
    float32.
    """
    lengths = np.arange(1, size + 2, dtype=np.float32)[:, np.newaxis]
    step = lengths / np.float32(count)
    edges = np.arange(count + 1, dtype=np.float32) * step
    for start in range(size + 1):
        possible = edges[: size + 1 - start]
        moved = possible + np.float32(start)
        for rounded in (np.floor, np.ceil):
            if np.any(np.minimum(rounded(moved) - rounded(possible) - start, size)):
                return False
    return True


_DATA = (F32, F16, Q8, Q8S)
ROWS = (row(spec.ROI_ALIGN, roi_align, *_DATA), row(spec.ROI_POOLING, roi_pooling, *_DATA))
