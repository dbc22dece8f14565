"""Operations whose output has another height and width: convolutions, pools, resizes, regions."""

from typing import NamedTuple

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs.drawn import (
    BYTES,
    F32,
    FLOATS,
    I32,
    NUMBERS,
    Q16,
    Draw,
    Given,
    Make,
    Operation,
    flag,
    integer,
    recipes,
)

SAME = 1


class Image(NamedTuple):
    """Sizes by name; NCHW or NHWC."""

    nchw: bool
    n: int
    h: int
    w: int
    c: int

    @property
    def dims(self) -> tuple[int, ...]:
        return (self.n, self.c, self.h, self.w) if self.nchw else (*self[1:],)

    @classmethod
    def drawn(cls, d: Draw, high: int = 5) -> "Image":
        return cls(d.chance(), d.size(1, 3), d.size(1, high), d.size(1, high), d.size(1, 4))

    def layout(self, d: Draw) -> list[Given]:
        """The flag, which NHWC may leave out."""
        return [flag(self.nchw)] if self.nchw or d.chance() else []


class Window(NamedTuple):
    """Window along one dimension; `padding` 1: SAME, 2: VALID, or before and after."""

    taps: int
    stride: int
    padding: int | tuple[int, int]
    dilation: int = 1

    def output(self, size: int) -> int | None:
        """Steps of the filter; None if it takes none, or none of its taps need meet the input."""
        reach = (self.taps - 1) * self.dilation + 1
        if self.padding == SAME:
            return -(-size // self.stride)
        around = self.padding if isinstance(self.padding, tuple) else (0, 0)
        steps = (size + sum(around) - reach) // self.stride + 1
        return steps if steps > 0 and reach > max(around) else None

    def transposed(self, size: int) -> int | None:
        """The size of which the filter makes `size` steps."""
        if self.padding == SAME:
            return size * self.stride if self.taps >= self.stride else None
        around = self.padding if isinstance(self.padding, tuple) else (0, 0)
        whole = (size - 1) * self.stride + self.taps - sum(around)
        return whole if whole > 0 else None


def moves(d: Draw, dilated: bool = False) -> tuple[Window, Window]:
    """Along the height and along the width, padded alike in kind."""
    explicit, scheme = d.chance(), d.size(1, 2)

    def window() -> Window:
        padding = (d.size(1, 3), d.size(1, 3)) if explicit else scheme
        return Window(d.size(1, 4), d.size(1, 3), padding, d.size(1, 3) if dilated else 1)

    return window(), window()


def motion(height: Window, width: Window) -> list[Given]:
    """Padding and strides as operands."""
    strides = [integer(width.stride), integer(height.stride)]
    if isinstance(height.padding, int):
        return [integer(height.padding), *strides]
    return [*map(integer, (*width.padding, *height.padding)), *strides]


def pool(d: Draw, code: OperandCode, rank: int) -> Operation:
    def attempt() -> Operation | None:
        image, (height, width) = Image.drawn(d, 9), moves(d)
        h, w = height.output(image.h), width.output(image.w)
        if h is None or w is None:
            return None
        a = d.tensor(code, image.dims)
        filters = [integer(width.taps), integer(height.taps)]
        inputs = [a, *motion(height, width), *filters, d.activation(), *image.layout(d)]
        return Operation(inputs, [a.like(*image._replace(h=h, w=w).dims)])

    return d.until(attempt)


def bias(d: Draw, a: Given, weights: Given, channels: int) -> Given:
    """Of the scale of the exact products, if quantized."""
    if a.code in BYTES:
        return Given(I32, (channels,), a.scale * weights.scale)
    return d.tensor(a.code, (channels,))


def convolution(kind: str) -> Make:
    """`kind`: plain, depthwise or grouped."""

    def attempt(d: Draw, code: OperandCode) -> Operation | None:
        image, groups, dilated = Image.drawn(d, 9), d.size(1, 3), kind != "grouped" and d.chance()
        if kind == "grouped":
            image = image._replace(c=groups * d.size(1, 3))
        out = {"plain": d.size(1, 4), "depthwise": image.c * groups, "grouped": groups * 2}[kind]
        height, width = moves(d, dilated)
        h, w = height.output(image.h), width.output(image.w)
        if h is None or w is None:
            return None
        depth = {"plain": image.c, "depthwise": out, "grouped": image.c // groups}[kind]
        a = d.tensor(code, image.dims)
        filters = 1 if kind == "depthwise" else out
        weights = d.tensor(code, (filters, height.taps, width.taps, depth))
        inputs = [a, weights, bias(d, a, weights, out), *motion(height, width)]
        inputs += [] if kind == "plain" else [integer(groups)]
        inputs += [d.activation(), *([flag(image.nchw)] if dilated or kind == "grouped" else [])]
        inputs += [integer(width.dilation), integer(height.dilation)] if dilated else []
        if not dilated and kind != "grouped":
            inputs += image.layout(d)
        return Operation(inputs, [d.tensor(code, image._replace(h=h, w=w, c=out).dims)])

    return lambda d, code, _: d.until(lambda: attempt(d, code))


def transposed(d: Draw, code: OperandCode, rank: int) -> Operation:
    def attempt() -> Operation | None:
        image, (height, width), out = Image.drawn(d), moves(d), d.size(1, 4)
        h, w = height.transposed(image.h), width.transposed(image.w)
        if h is None or w is None:
            return None
        a, result = d.tensor(code, image.dims), image._replace(h=h, w=w, c=out)
        weights = d.tensor(code, (out, height.taps, width.taps, image.c))
        implicit = isinstance(height.padding, int)
        shape = [Given(I32, (4,), numbers=result.dims, constant=True)] if implicit else []
        inputs = [a, weights, bias(d, a, weights, out), *shape, *motion(height, width)]
        return Operation([*inputs, d.activation(), flag(image.nchw)], [d.tensor(code, result.dims)])

    return d.until(attempt)


def resize(always_told: bool) -> Make:
    """To a size, or by a scale; `always_told`: the layout is no optional operand."""

    def attempt(d: Draw, code: OperandCode) -> Operation | None:
        image = Image.drawn(d)
        a = d.tensor(code, image.dims)
        if d.chance():
            w, h = d.size(1, 9), d.size(1, 9)
            layout = [flag(image.nchw)] if always_told else image.layout(d)
            return Operation(
                [a, integer(w), integer(h), *layout], [a.like(*image._replace(h=h, w=w).dims)]
            )
        scales = [d.real(code, 0.2, 4), d.real(code, 0.2, 4)]
        w, h = (
            int(np.float32(size) * np.float32(scale.array(d.r)))
            for size, scale in zip((image.w, image.h), scales, strict=True)
        )
        out = a.like(*image._replace(h=h, w=w).dims)
        return Operation([a, *scales, flag(image.nchw)], [out]) if h and w else None

    return lambda d, code, _: d.until(lambda: attempt(d, code))


def boxes(d: Draw, code: OperandCode, count: int, height: float, width: float) -> Given:
    """[x1, y1, x2, y2] of each, within the height and the width."""
    rows = []
    for _ in range(count):
        x, y = d.r.uniform(0, width), d.r.uniform(0, height)
        rows.append([x, y, d.r.uniform(x, width), d.r.uniform(y, height)])
    if code in BYTES:
        return Given(Q16, (count, 4), 0.125, 0, np.floor(np.multiply(rows, 8)), constant=True)
    return Given(code, (count, 4), numbers=rows, constant=True)


def regions(name: str) -> Make:
    """ROI_ALIGN, with its sampling ratios, or ROI_POOLING."""

    def make(d: Draw, code: OperandCode, rank: int) -> Operation:
        image, count, h, w = Image.drawn(d), d.size(), d.size(), d.size()
        sy, sx = d.r.uniform(0.1, 10), d.r.uniform(0.1, 10)
        a = d.tensor(code, image.dims)
        batches = sorted(d.r.randrange(image.n) for _ in range(count))
        inputs = [a, boxes(d, code, count, image.h * sy * 0.999, image.w * sx * 0.999)]
        inputs += [Given(I32, (count,), numbers=batches, constant=True), integer(h), integer(w)]
        inputs += [Given(OperandCode.FLOAT32, numbers=s, constant=True) for s in (sy, sx)]
        if name == "ROI_ALIGN":
            inputs += [integer(d.r.randint(0, 10)), integer(d.r.randint(0, 10))]
        dims = image._replace(n=count, h=h, w=w).dims
        out = d.tensor(code, dims) if name == "ROI_ALIGN" else a.like(*dims)
        return Operation([*inputs, flag(image.nchw)], [out])

    return make


def keypoints(d: Draw, code: OperandCode, rank: int) -> Operation:
    count, points, size = d.size(), d.size(), d.size(2, 8)
    image = Image(d.chance(), count, size, size, points)
    heatmap = d.tensor(code, image.dims)
    where = (
        Given(Q16, (count, points, 2), 0.125) if code in BYTES else Given(code, (count, points, 2))
    )
    inputs = [heatmap, boxes(d, code, count, size, size), flag(image.nchw)]
    return Operation(inputs, [d.tensor(code, (count, points)), where])


REGIONS = (F32, *BYTES)
RECIPES = [
    *recipes("AVERAGE_POOL_2D MAX_POOL_2D", NUMBERS, pool, (4,)),
    *recipes("L2_POOL_2D", FLOATS, pool, (4,)),
    *recipes("CONV_2D", NUMBERS, convolution("plain"), (4,)),
    *recipes("DEPTHWISE_CONV_2D", NUMBERS, convolution("depthwise"), (4,)),
    *recipes("GROUPED_CONV_2D", NUMBERS, convolution("grouped"), (4,)),
    *recipes("TRANSPOSE_CONV_2D", NUMBERS, transposed, (4,)),
    *recipes("RESIZE_BILINEAR", NUMBERS, resize(always_told=False), (4,)),
    *recipes("RESIZE_NEAREST_NEIGHBOR", NUMBERS, resize(always_told=True), (4,)),
    *recipes("ROI_ALIGN", REGIONS, regions("ROI_ALIGN"), (4,)),
    *recipes("ROI_POOLING", REGIONS, regions("ROI_POOLING"), (4,)),
    *recipes("HEATMAP_MAX_KEYPOINT", REGIONS, keypoints, (4,)),
]
