"""Keypoints: maxima of heatmaps, at subpixel accuracy."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernels.keypoint import FLAT, FLAT_HALVES, MAX_OFFSET
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.ort_devices.lowering.boxes import checked_boxes, deliver_boxes
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import TO_NCHW, identity, require


def heatmap_max_keypoint(op: Op) -> None:
    """The maximum of each heatmap, by a second-order fit in float64, and its position in the box.

    Source: NDK ANEURALNETWORKS_HEATMAP_MAX_KEYPOINT.
    """
    boxes, points = op.shape("output_scores")
    maps = op.real("heatmap", identity(4) if op.scalar("layout") else TO_NCHW)
    size = op.shape("heatmap")[2]
    require(size > 1, "heatmaps of one pixel")
    pixels = op.reshape(maps, (boxes, points, size * size))
    at = op.node("ArgMax", pixels, axis=2, keepdims=1)
    y = op.node("Div", at, op.array(size, np.int64))
    x = op.node("Mod", at, op.array(size, np.int64))
    patch = _patch(op, pixels, size, (y, x))
    fit = _Fit(
        op, [op.node("Squeeze", op.columns(patch, n, n + 1), op.sizes([2])) for n in range(9)]
    )
    shift_x, shift_y, score = fit.maximum()
    op.deliver(op.node("Cast", score, to=TensorProto.FLOAT), output="output_scores")
    corners = op.reshape(checked_boxes(op, "boxes"), (boxes, 1, 4))
    places = [_position(op, *each, size) for each in ((x, shift_x), (y, shift_y))]
    low, high = op.columns(corners, 0, 2), op.columns(corners, 2, 4)
    extent = op.node("Cast", op.node("Sub", high, low), to=TensorProto.DOUBLE)
    inside = op.node("Mul", op.node("Concat", *places, axis=2), extent)
    found = op.node("Add", inside, op.node("Cast", low, to=TensorProto.DOUBLE))
    deliver_boxes(op, op.node("Cast", found, to=TensorProto.FLOAT), "output_keypoints")


def _patch(op: Op, pixels: str, size: int, centre: tuple[str, str]) -> str:
    """The 3 x 3 pixels around a centre, mirrored at edges, [boxes, keypoints, 9], in float64."""
    places, around = [], np.arange(-1, 2)
    for at, offsets in zip(centre, (np.repeat(around, 3), np.tile(around, 3)), strict=True):
        near = op.node("Abs", op.node("Add", at, op.array(offsets, np.int64)))
        mirrored = op.node("Sub", op.array(2 * size - 2, np.int64), near)
        places.append(op.node("Min", near, mirrored))
    rows = op.node("Mul", places[0], op.array(size, np.int64))
    found = op.node("GatherElements", pixels, op.node("Add", rows, places[1]), axis=2)
    return op.node("Cast", found, to=TensorProto.DOUBLE)


def _position(op: Op, pixel: str, shift: str, size: int) -> str:
    """A coordinate of maxima in heatmaps of width 1, [boxes, keypoints, 1]."""
    moved = op.node("Unsqueeze", shift, op.sizes([2]))
    at = op.node("Add", op.node("Cast", pixel, to=TensorProto.DOUBLE), moved)
    middle = op.node("Add", at, op.array(0.5, np.float64))
    return op.node("Div", middle, op.array(size, np.float64))


class _Fit:
    """A paraboloid through 3 x 3 pixels, row by row, as `kernels.keypoint` fits it."""

    def __init__(self, op: Op, grid: list[str]) -> None:
        self._op = op
        self._grid = grid

    def _do(self, op_type: str, *values: str | float) -> str:
        """Add a node; numbers are constants."""
        names = (v if isinstance(v, str) else self._op.array(v, np.float64) for v in values)
        return self._op.node(op_type, *names)

    def _slope(self, before: str, after: str) -> str:
        return self._do("Div", self._do("Sub", after, before), 2.0)

    def _curve(self, before: str, after: str) -> str:
        twice = self._do("Mul", self._grid[4], 2.0)
        return self._do("Add", self._do("Sub", before, twice), after)

    def _difference(self, a: str, b: str, c: str, d: str) -> str:
        """Add nodes for a * b - c * d."""
        return self._do("Sub", self._do("Mul", a, b), self._do("Mul", c, d))

    def maximum(self) -> tuple[str, str, str]:
        """Offsets along x and y from the middle, and the value there."""
        do, grid = self._do, self._grid
        slope_x, slope_y = self._slope(grid[3], grid[5]), self._slope(grid[1], grid[7])
        curve_x, curve_y = self._curve(grid[3], grid[5]), self._curve(grid[1], grid[7])
        sides = do("Add", do("Sub", do("Sub", grid[8], grid[6]), grid[2]), grid[0])
        twist = do("Div", sides, 4.0)
        halves = self._op.operand("heatmap").type is F16
        flat = FLAT_HALVES if halves else FLAT
        product = do("Mul", curve_x, curve_y)
        determinant = do("Sub", product, do("Mul", twist, twist))
        least = do("Add", do("Mul", product, flat), flat)
        solvable = do("GreaterOrEqual", do("Abs", determinant), least)
        divisor = do("Where", solvable, determinant, 1.0)
        x, y = (
            do("Where", solvable, do("Div", self._difference(*terms), divisor), 0.0)
            for terms in ((twist, slope_y, curve_y, slope_x), (twist, slope_x, curve_x, slope_y))
        )
        longest = do("Max", do("Max", do("Abs", x), do("Abs", y)), MAX_OFFSET)
        scale = do("Div", MAX_OFFSET, longest)
        x, y = do("Mul", x, scale), do("Mul", y, scale)
        along_x = do("Mul", do("Add", do("Mul", curve_x, x), do("Mul", twist, y)), x)
        along_y = do("Mul", do("Add", do("Mul", twist, x), do("Mul", curve_y, y)), y)
        bend = do("Div", do("Add", along_x, along_y), 2.0)
        rise = do("Add", do("Mul", slope_x, x), do("Mul", slope_y, y))
        return x, y, do("Add", do("Add", grid[4], rise), bend)


ROWS = (row(spec.HEATMAP_MAX_KEYPOINT, heatmap_max_keypoint, *(F32, F16, Q8, Q8S)),)
