"""Shape inference for bounding boxes, regions of interest and keypoints."""

from __future__ import annotations

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.convolution import image_dims, nhwc_dims
from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    Scalar,
    Tensor,
    by_name,
    require,
    unify,
    vector,
)

CORNERS = 4
"""Coordinates of a box. Source: NDK ANEURALNETWORKS_ROI_ALIGN."""


def roi(
    input: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    output_height: int,
    output_width: int,
    layout: bool,
    **scalars: Scalar,
) -> Dims:
    """One image of the given size for each region. Source: NDK …_ROI_ALIGN, …_ROI_POOLING."""
    batch, height, width, channels = nhwc_dims(input, layout)
    for size in (batch, height, width, channels):
        require(size != 0, f"an image of {input.dims} has no pixels")
    require(
        min(output_height, output_width) > 0,
        f"regions of {output_height} x {output_width}; both sizes must be positive",
    )
    for name in ("height", "width"):
        ratio, points = scalars[f"{name}_ratio"], scalars.get(f"{name}_sampling_points", 0)
        require(ratio > 0, f"{name}_ratio is {ratio:g}; it must be positive")
        require(points >= 0, f"{name}_sampling_points is {points}; it must be 0 or more")
    count = unify(_boxes(rois), vector(batch_indices))
    return image_dims(count, output_height, output_width, channels, layout)


def axis_aligned_bbox_transform(
    rois: Tensor, deltas: Tensor, batch_indices: Tensor, image_info: Tensor
) -> Dims:
    """One box for each class."""
    count = unify(_boxes(rois), vector(batch_indices))
    rows, numbers = _matrix(deltas)
    require(numbers != 0, "deltas have no class")
    _classes(numbers)
    _images(image_info)
    return (unify(count, rows), numbers)


def box_with_nms_limit(scores: Tensor, rois: Tensor, batch_indices: Tensor) -> list[Dims | None]:
    """Data-dependent number of results."""
    count, classes = _matrix(scores)
    require(classes is None or classes > 1, "scores have only the background class")
    rows, numbers = _matrix(rois)
    unify(classes, _classes(numbers))
    unify(unify(count, rows), vector(batch_indices))
    return [(None,), (None, CORNERS), (None,), (None,)]


def generate_proposals(
    scores: Tensor, deltas: Tensor, anchors: Tensor, image_info: Tensor, layout: bool
) -> list[Dims | None]:
    """Data-dependent number of results."""
    batch, height, width, count = nhwc_dims(scores, layout)
    *sizes, moves = nhwc_dims(deltas, layout)
    for size, other in zip((batch, height, width), sizes, strict=True):
        unify(size, other)
    unify(unify(count, _classes(moves)), _boxes(anchors))
    unify(batch, _images(image_info))
    return [(None,), (None, CORNERS), (None,)]


def heatmap_max_keypoint(heatmap: Tensor, boxes: Tensor, layout: bool) -> list[Dims | None]:
    """Score and position of each keypoint."""
    batch, height, width, keypoints = nhwc_dims(heatmap, layout)
    size = unify(height, width)
    require(size is None or size > 1, f"heatmap has {size} x {size} pixels; it takes 2 x 2 or more")
    count = unify(batch, _boxes(boxes))
    return [(count, keypoints), (count, keypoints, 2)]


def detection_postprocessing(
    scores: Tensor,
    deltas: Tensor,
    anchors: Tensor,
    use_regular_nms: bool,
    max_num_detections: int,
    max_classes_per_detection: int,
    max_detections_per_class: int,
    **scalars: Scalar,
) -> list[Dims | None]:
    """Sizes for the maximum number of results: without regular NMS, several for each detection."""
    require(scores.rank == deltas.rank == 3, "scores and deltas have 3 dimensions")
    batch, count, classes = scores.dims
    numbers = deltas.dims[2]
    require(classes is None or classes > 1, "scores have only the background class")
    require(
        numbers is None or numbers >= CORNERS,
        f"deltas has {numbers} numbers for a box; it takes {CORNERS} or more",
    )
    for name in ("dy", "dx", "dh", "dw"):
        require(
            scalars[f"{name}_scale"] > 0,
            f"{name}_scale is {scalars[f'{name}_scale']:g}; it must be positive",
        )
    for name in ("score", "iou"):
        require(scalars[f"{name}_threshold"] >= 0, f"{name}_threshold is negative")
    each = max_detections_per_class if use_regular_nms else max_classes_per_detection
    require(min(max_num_detections, each) > 0, "max_num_detections is not positive")
    batch = unify(batch, deltas.dims[0])
    unify(unify(count, deltas.dims[1]), _boxes(anchors))
    most = max_num_detections * (1 if use_regular_nms else max_classes_per_detection)
    return [(batch, most), (batch, most, CORNERS), (batch, most), (batch,)]


def _boxes(tensor: Tensor) -> Dim:
    """Number of boxes n of a tensor [n, 4]."""
    count, numbers = _matrix(tensor)
    unify(numbers, CORNERS)
    return count


def _images(tensor: Tensor) -> Dim:
    """Number of images n of a tensor of sizes [n, 2]."""
    count, numbers = _matrix(tensor)
    require(count != 0, "image_info has the size of no image")
    unify(numbers, 2)
    return count


def _classes(numbers: Dim) -> Dim:
    """Number of classes from the number of box coordinates."""
    if numbers is None:
        return None
    require(
        numbers % CORNERS == 0,
        f"deltas has {numbers} numbers for a row, which is no multiple of {CORNERS}",
    )
    return numbers // CORNERS


def _matrix(tensor: Tensor) -> tuple[Dim, Dim]:
    require(tensor.rank == 2, f"a list of rows has 2 dimensions, not {tensor.rank}")
    rows, columns = tensor.dims
    return rows, columns


SHAPES = {
    **by_name(axis_aligned_bbox_transform, box_with_nms_limit, generate_proposals),
    **by_name(heatmap_max_keypoint, detection_postprocessing),
    **dict.fromkeys((spec.ROI_ALIGN, spec.ROI_POOLING), roi),
}
