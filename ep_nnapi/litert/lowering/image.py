"""Image resizing, and blocks of pixels moved to or from channels or batches."""

from __future__ import annotations

from functools import partial

import numpy as np

from ep_nnapi.litert.operation import DATA, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.ort_devices.operation import row


def _resize(operator: str, op: FlatOp) -> None:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, to the size of the output."""
    op.same_quantization("input")
    signed = op.signed("input")
    _, high, wide, _ = op.image_output(signed=signed).shape
    inputs = [op.image("input", signed=signed), op.graph.ints((high, wide))]
    fields = {
        "alignCorners": bool(op.scalar("align_corners", default=False)),
        "halfPixelCenters": bool(op.scalar("half_pixel_centers", default=False)),
    }
    op.finish_image(operator, inputs, signed=signed, **fields)


def channel_shuffle(op: FlatOp) -> None:
    """Interleaves the channels of all groups."""
    op.same_quantization("input")
    shape, signed = op.shape("input"), op.signed("input")
    at, groups = op.axis("axis", len(shape)), op.number("num_groups")
    wide = (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])
    order = (*range(at), at + 1, at, *range(at + 2, len(wide)))
    value = op.graph.reshaped(op.tensor("input", signed=signed), wide)
    op.finish(op.graph.reshaped(op.graph.transposed(value, order), shape), signed=signed)


def _blocks(operator: str, op: FlatOp) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH."""
    op.same_quantization("input")
    signed = op.signed("input")
    image = op.image("input", signed=signed)
    block = op.number("block_size")
    op.finish_image(operator, [image], signed=signed, blockSize=block)


def _batches(operator: str, op: FlatOp, *, names: tuple[str, ...] = ()) -> None:
    """BATCH_TO_SPACE_ND, whose crops are 0, and SPACE_TO_BATCH_ND."""
    op.same_quantization("input")
    signed = op.signed("input")
    ends = [op.tensor(name) for name in names]
    if not ends:
        ends = [op.graph.array(np.zeros((2, 2), np.int32))]
    inputs = [op.image("input", signed=signed), op.tensor("block_sizes"), *ends]
    op.finish_image(operator, inputs, signed=signed)


ROWS = (
    row(spec.RESIZE_BILINEAR, partial(_resize, "RESIZE_BILINEAR"), *DATA),
    row(
        spec.RESIZE_NEAREST_NEIGHBOR,
        partial(_resize, "RESIZE_NEAREST_NEIGHBOR"),
        *DATA,
    ),
    row(spec.CHANNEL_SHUFFLE, channel_shuffle, *DATA),
    row(spec.DEPTH_TO_SPACE, partial(_blocks, "DEPTH_TO_SPACE"), *DATA),
    row(spec.SPACE_TO_DEPTH, partial(_blocks, "SPACE_TO_DEPTH"), *DATA),
    row(spec.BATCH_TO_SPACE_ND, partial(_batches, "BATCH_TO_SPACE_ND"), *DATA),
    row(
        spec.SPACE_TO_BATCH_ND,
        partial(_batches, "SPACE_TO_BATCH_ND", names=("paddings",)),
        *DATA,
    ),
)
