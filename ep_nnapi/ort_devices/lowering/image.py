"""Image resizing, and blocks of pixels moved to or from channels or batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels.image import nearest
from ep_nnapi.nnapi.shapes.image import INTERLEAVED
from ep_nnapi.nnapi.sizes import plain
from ep_nnapi.nnapi.spec import DATA
from ep_nnapi.ort_devices.operation import Op, row
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    Perm,
    identity,
    is_coded,
    permuted,
    zero_point,
)


def resize_bilinear(op: Op) -> None:
    """Bilinear interpolation."""
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
    """Nearest-neighbour interpolation, by the reference device's own choice of pixels."""
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
        size, wanted = plain((op.shape("input")[axis], op.shape("output")[axis]))
        pixels = op.array(nearest(size, wanted, op.scalars()), np.int64)
        value = op.node("Gather", value, pixels, axis=layout.index(axis))
    op.keep(value, layout)


def _repeat(op: Op, layout: Perm, factors: Sequence[int]) -> None:
    """Each pixel a whole number of times: all ways to choose the nearest one agree then."""
    scales = op.array([1, 1, *plain(factors)])
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    value = op.node("Resize", op.stored("input", layout), "", scales, mode="nearest", **how)
    op.keep(value, layout)


def _nhwc(op: Op) -> Perm:
    """The permutation from the operation's layout to NHWC."""
    return TO_NHWC if op.scalar("layout", default=False) else identity(4)


def _rearranged(
    op: Op, value: str, split: Sequence[int], order: Perm, result: Sequence[int]
) -> str:
    """Reshape, transpose and reshape again."""
    wide = op.reshape(value, split)
    return op.reshape(op.node("Transpose", wide, perm=order), result)


def depth_to_space(op: Op) -> None:
    """Moves channels into blocks of pixels."""
    block, layout = op.number("block_size"), _nhwc(op)
    n, h, w, c = permuted(op.shape("input"), layout)
    result = (n, h * block, w * block, c // block**2)
    if not is_coded(op.operand("input")):
        nchw = TO_NCHW if layout == identity(4) else identity(4)
        value = op.node("DepthToSpace", op.stored("input", nchw), blocksize=block, mode="DCR")
        op.keep(value, nchw)
        return
    split = (n, h, w, block, block, c // block**2)
    op.keep(_rearranged(op, op.stored("input", layout), split, INTERLEAVED, result), layout)


def space_to_depth(op: Op) -> None:
    """Moves blocks of pixels into channels."""
    block, layout = op.number("block_size"), _nhwc(op)
    n, h, w, c = permuted(op.shape("input"), layout)
    high, wide = h // block, w // block
    split = (n, high, block, wide, block, c)
    result = (n, high, wide, c * block**2)
    op.keep(_rearranged(op, op.stored("input", layout), split, INTERLEAVED, result), layout)


def batch_to_space_nd(op: Op) -> None:
    """Moves batches into blocks of pixels."""
    (high, wide), layout = op.ints("block_sizes"), _nhwc(op)
    n, h, w, c = permuted(op.shape("input"), layout)
    images = n // (high * wide)
    split = (high, wide, images, h, w, c)
    result = (images, h * high, w * wide, c)
    order = (2, 3, 0, 4, 1, 5)
    op.keep(_rearranged(op, op.stored("input", layout), split, order, result), layout)


def space_to_batch_nd(op: Op) -> None:
    """Moves blocks of pixels, zero-padded, into batches."""
    (high, wide), layout = op.ints("block_sizes"), _nhwc(op)
    top, bottom, left, right = op.ints("paddings")
    n, h, w, c = permuted(op.shape("input"), layout)
    source = op.operand("input")
    coded = is_coded(source)
    fill = op.array(zero_point(source) if coded else 0, np.uint8 if coded else np.float32)
    ends = op.sizes((0, top, left, 0, 0, bottom, right, 0))
    padded = op.node("Pad", op.stored("input", layout), ends, fill)
    down, across = (h + top + bottom) // high, (w + left + right) // wide
    split = (n, down, high, across, wide, c)
    result = (n * high * wide, down, across, c)
    op.keep(_rearranged(op, padded, split, (2, 4, 0, 1, 3, 5), result), layout)


ROWS = (
    row(spec.RESIZE_BILINEAR, resize_bilinear, *DATA),
    row(spec.RESIZE_NEAREST_NEIGHBOR, resize_nearest_neighbor, *DATA),
    row(spec.DEPTH_TO_SPACE, depth_to_space, *DATA),
    row(spec.SPACE_TO_DEPTH, space_to_depth, *DATA),
    row(spec.BATCH_TO_SPACE_ND, batch_to_space_nd, *DATA),
    row(spec.SPACE_TO_BATCH_ND, space_to_batch_nd, *DATA),
)
