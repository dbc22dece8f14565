"""Boxes: coordinates, checks of a run's boxes, and their transform by deltas."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels.boxes import SCALE
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S, Q16
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import require

_GREATEST = 65535
"""Greatest stored 16-bit coordinate."""


def axis_aligned_bbox_transform(op: Op) -> None:
    """Moves each box by the deltas of each class, and clips it to its image.

    Source: NDK ANEURALNETWORKS_AXIS_ALIGNED_BBOX_TRANSFORM.
    """
    boxes, count = op.shape("rois")[0], op.shape("deltas")[1] // 4
    rois = op.reshape(checked_boxes(op, "rois"), (boxes, 1, 4))
    deltas = op.reshape(op.real("deltas"), (boxes, count, 4))
    low, high = op.columns(rois, 0, 2), op.columns(rois, 2, 4)
    size, two = op.node("Sub", high, low), op.array(2)
    grown = op.node("Mul", op.node("Exp", op.columns(deltas, 2, 4)), size)
    half = op.node("Div", grown, two)
    middle = op.node("Div", op.node("Add", low, high), two)
    centre = op.node("Add", middle, op.node("Mul", op.columns(deltas, 0, 2), size))
    ends = [op.node("Sub", centre, half), op.node("Add", centre, half)]
    moved = op.node("Concat", *ends, axis=2)
    sizes = op.node("Gather", coordinates(op, "image_info"), checked_batches(op, "image_info"))
    limits = op.node("Gather", sizes, op.array([1, 0, 1, 0], np.int64), axis=1)
    limits = op.reshape(limits, (boxes, 1, 4))
    clipped = op.node("Min", op.node("Max", moved, op.array(0)), limits)
    deliver_boxes(op, op.reshape(clipped, op.shape("output")), "output")


def coordinates(op: Op, name: str) -> str:
    """The coordinates of a boxes operand in float32."""
    operand = op.operand(name)
    if operand.type is not Q16:
        return op.stored(name)
    require((operand.scale, operand.zero_point) == (SCALE, 0), f"the scale of {name}")
    return op.node("Mul", op.node("Cast", op.stored(name), to=TensorProto.FLOAT), op.array(SCALE))


def deliver_boxes(op: Op, value: str, output: str) -> None:
    """Define an output by coordinates in float32."""
    operand = op.operand(output)
    if operand.type is Q16:
        steps = op.node("Round", op.node("Div", value, op.array(operand.scale)))
        steps = op.node("Add", steps, op.array(operand.zero_point))
        within = op.node("Clip", steps, op.array(0), op.array(_GREATEST))
        value = op.node("Cast", within, to=TensorProto.UINT16)
    op.keep(value, output=output)


def checked_boxes(op: Op, name: str) -> str:
    """The coordinates of a boxes operand [n, 4]; a run fails unless x1 <= x2 and y1 <= y2."""
    boxes = coordinates(op, name)
    ordered = op.node("LessOrEqual", op.columns(boxes, 0, 2), op.columns(boxes, 2, 4))
    return op.checked(boxes, [ordered], "a box must have x1 <= x2 and y1 <= y2")


def checked_batches(op: Op, images: str) -> str:
    """The operand `batch_indices`; a run fails for one that is not of the images."""
    at = op.stored("batch_indices")
    there_are = [
        op.node("GreaterOrEqual", at, op.array(0, np.int32)),
        op.node("Less", at, op.array(op.shape(images)[0], np.int32)),
    ]
    return op.checked(at, there_are, "a batch index is out of range")


ROWS = (
    row(
        spec.AXIS_ALIGNED_BBOX_TRANSFORM,
        axis_aligned_bbox_transform,
        *(F32, F16, Q8, Q8S),
    ),
)
