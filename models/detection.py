"""Object detectors: one that ends in NonMaxSuppression, one with RoiAlign."""

from math import sqrt

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from models.builder import Graph, Tensor
from models.layers import centred, conv, conv_bn, dense
from models.mobile import separable
from models.sizes import Sizes

Boxes = npt.NDArray[np.float32]

CLASSES = 21  # the first is the background
SHAPES = (1.0, 2.0, 0.5, 3.0, 1 / 3)  # width over height of the boxes at a place


def detector(g: Graph, sizes: Sizes) -> None:
    """A single-shot detector on two feature maps; size a multiple of 32.

    `boxes` [N, A, 4] (top, left, bottom, right; 0 to 1), `probabilities` [N, 20, A] and what
    NonMaxSuppression left, `selected` [K, 3] (image, class, box).
    Source: the plan of W. Liu et al., "SSD: single shot multibox detector", 2015.
    """
    fine = backbone(g, sizes.image(g))
    coarse = separable(g, fine, 160, 2)
    maps = (fine, coarse)
    scores = per_box(g, [conv(g, x, len(SHAPES) * CLASSES, centred(3)) for x in maps], CLASSES)
    offsets = per_box(g, [conv(g, x, len(SHAPES) * 4, centred(3)) for x in maps], 4)
    default = [anchors(sizes.size // step, scale) for step, scale in ((16, 0.2), (32, 0.5))]
    boxes = decoded(g, offsets, g.weight(np.concatenate(default)))
    odds = g.add("Transpose", g.add("Softmax", scores, axis=-1), perm=(0, 2, 1))
    odds = g.add("Slice", odds, g.ints(1), g.ints(CLASSES), g.ints(1))
    most, overlap, least = g.ints(10), np.array([0.5], np.float32), np.array([0.15], np.float32)
    kept = g.add("NonMaxSuppression", boxes, odds, most, g.weight(overlap), g.weight(least))
    g.output(boxes, "boxes")
    g.output(odds, "probabilities")
    g.output(kept, "selected", TensorProto.INT64)


def backbone(g: Graph, x: Tensor) -> Tensor:
    """96 channels at a sixteenth of the size."""
    x = conv_bn(g, x, 16, centred(3, 2))
    for channels, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (96, 2), (96, 1)):
        x = separable(g, x, channels, stride)
    return x


def per_box(g: Graph, maps: list[Tensor], width: int) -> Tensor:
    """[N, K * width, H, W] of each map as [N, H * W * K, width], all maps after one another."""
    rows = []
    for x in maps:
        last = g.add("Transpose", x, perm=(0, 2, 3, 1))
        rows.append(g.add("Reshape", last, g.ints(0, -1, width)).wide(width))
    return g.add("Concat", *rows, axis=1) if len(rows) > 1 else rows[0]


def anchors(cells: int, scale: float) -> Boxes:
    """The default boxes of a map of `cells` x `cells`: [A, 4] centre y, x, height, width."""
    centres = (np.arange(cells) + 0.5) / cells
    sides = np.array([(scale / sqrt(shape), scale * sqrt(shape)) for shape in SHAPES])
    boxes = np.empty((cells, cells, len(SHAPES), 4), np.float32)
    boxes[..., 0] = centres[:, None, None]
    boxes[..., 1] = centres[None, :, None]
    boxes[..., 2:] = sides
    return boxes.reshape(-1, 4)


def decoded(g: Graph, offsets: Tensor, default: Tensor) -> Tensor:
    """`offsets` [..., A, 4] from the `default` boxes as corners (top, left, bottom, right).

    Centres move by a tenth of the box's side per unit, sides grow by a factor of exp(unit / 5).
    """
    shift, growth = (part(g, offsets, index) for index in range(2))
    centre, side = (part(g, default, index) for index in range(2))
    moved = g.add("Add", centre, g.add("Mul", g.add("Mul", shift, g.scalar(0.1)), side))
    grown = g.add("Mul", side, g.add("Exp", g.add("Mul", growth, g.scalar(0.2))))
    half = g.add("Mul", grown, g.scalar(0.5))
    return g.add("Concat", g.add("Sub", moved, half), g.add("Add", moved, half), axis=-1)


def part(g: Graph, boxes: Tensor, index: int) -> Tensor:
    """The first or the second pair of the numbers of each box."""
    return g.add("Slice", boxes, g.ints(2 * index), g.ints(2 * index + 2), g.ints(-1)).wide(2)


def detector_roialign(g: Graph, sizes: Sizes) -> None:
    """A two-stage detector on one image: the K best proposals, RoiAlign, a dense head.

    `boxes` [K, 4] (left, top, right, bottom; pixels), `probabilities` [K, 21] and per-class
    `deltas` [K, 84]; K is 32, or all where there are fewer; size a multiple of 16.
    Source: the plan of S. Ren et al., "Faster R-CNN", 2015; RoiAlign as torchvision exports it.
    """
    features = backbone(g, sizes.image(g))
    default = anchors(sizes.size // 16, 0.3)
    best = min(32, len(default))
    rois = g.add("Mul", proposals(g, features, default, best), g.scalar(sizes.size))
    x = g.add(
        "RoiAlign",
        features,
        rois,
        g.weight(np.zeros(best, np.int64)),
        output_height=7,
        output_width=7,
        sampling_ratio=2,
        spatial_scale=1 / 16,
        coordinate_transformation_mode="output_half_pixel",
    )
    x = g.add("Flatten", x, axis=1).wide(features.width * 49)
    x = g.add("Relu", dense(g, x, 256, gain=2.0))
    g.output(g.add("Softmax", dense(g, x, CLASSES), axis=-1), "probabilities")
    g.output(dense(g, x, 4 * CLASSES), "deltas")
    g.output(rois, "boxes")


def proposals(g: Graph, features: Tensor, default: Boxes, count: int) -> Tensor:
    """The `count` likeliest boxes [count, 4] (left, top, right, bottom; 0 to 1)."""
    x = g.add("Relu", conv(g, features, 96, centred(3)))
    likely = per_box(g, [conv(g, x, len(SHAPES))], 1)
    likely = g.add("Reshape", likely, g.ints(-1))
    _, best = g.add_many("TopK", [likely, g.ints(count)], 2, axis=0, largest=1, sorted=1)
    offsets = per_box(g, [conv(g, x, 4 * len(SHAPES))], 4)
    offsets = g.add("Gather", g.add("Squeeze", offsets, g.ints(0)), best, axis=0)
    chosen = g.add("Gather", g.weight(default), best, axis=0)
    boxes = g.add("Clip", decoded(g, offsets, chosen), g.scalar(0), g.scalar(1))
    return g.add("Gather", boxes, g.ints(1, 0, 3, 2), axis=1)
