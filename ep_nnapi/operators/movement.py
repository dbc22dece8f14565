"""Data movement: Transpose, Concat, Split, Slice, Expand, Tile, DepthToSpace, SpaceToDepth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import (
    CONCATENATION,
    DEPTH_TO_SPACE,
    GATHER,
    NOT_EQUAL,
    PACK,
    SPACE_TO_DEPTH,
    SPLIT,
)
from ep_nnapi.operators.lib.broadcast import expand, tile
from ep_nnapi.operators.lib.emit import (
    Computed,
    as_number,
    each,
    of_any_type,
    output_or_temp,
    reshape,
    reshaped,
    write_output,
)
from ep_nnapi.operators.lib.merge_axes import sizes_around
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.slicing import slice_ranges
from ep_nnapi.operators.lib.transposition import transpose as permute
from ep_nnapi.operators.lib.window import images, layout


@op("Transpose", since=1)
def transpose(n: Node) -> Iterator[Call]:
    """Axes permuted; reversed without `perm`.

    Source: ONNX Transpose-1 to Transpose-25; NDK ANEURALNETWORKS_TRANSPOSE.
    """
    x = n.input(0)
    perm = n.integers("perm", range(x.rank)[::-1])
    detail = f"perm {list(perm)} does not permute the {x.rank} axes of {x.name}"
    n.require(sorted(perm) == list(range(x.rank)), Reason.ATTRIBUTE, detail)
    yield from of_any_type(n, x, n.output(), lambda a, b: permute(n, a, perm, b))


@op("Concat", since=4)
def concat(n: Node) -> Iterator[Call]:
    """Tensors one behind the other along `axis`.

    Source: ONNX Concat-4, Concat-11, Concat-13; NDK ANEURALNETWORKS_CONCATENATION.
    """
    y, axis = n.output(), n.axis()
    parts = [list(x.shape) for x in n.inputs]
    together = {len(p) for p in parts} == {y.rank} and sum(p[axis] for p in parts) == y.shape[axis]
    detail = f"{y.name} has shape {list(y.shape)}; the parts along axis {axis} have {parts}"
    n.require(together, Reason.SHAPE, detail)
    if len(n.inputs) == 1:
        yield from of_any_type(n, n.input(0), y, lambda a, b: reshape(n, a, b))
    elif y.dtype is DType.BOOL:
        numbers = yield from each(as_number(n, x) for x in n.inputs)
        whole = n.temp(numbers[0], y.shape)
        yield from _concatenated(n, numbers, axis, whole)
        yield apply(NOT_EQUAL, whole, n.scalar(0, whole), out=y)
    else:
        yield from _concatenated(n, n.inputs, axis, y)


def _concatenated(n: Node, parts: Sequence[Value], axis: int, y: Value) -> Iterator[Call]:
    """Emit CONCATENATION; it does not take INT32: PACK replaces it there for equal shapes."""
    alike = len({p.shape for p in parts}) == 1
    if y.dtype is DType.INT32 and alike:
        before, size, after = sizes_around(parts[0].shape, axis)
        rows = yield from each(reshaped(n, p, (before, size * after)) for p in parts)
        packed = n.temp(y, (before, len(parts), size * after))
        yield apply(PACK, axis=1, inputs=rows, out=packed)
        yield from reshape(n, packed, y)
    elif y.rank <= MAX_RANK:
        yield apply(CONCATENATION, inputs=parts, axis=axis, out=y)
    else:
        rows = yield from each(reshaped(n, p, sizes_around(p.shape, axis)) for p in parts)
        whole = output_or_temp(n, y, sizes_around(y.shape, axis))
        yield apply(CONCATENATION, inputs=rows, axis=1, out=whole)
        yield from write_output(n, whole, y)


@op("Split", since=2)
def split(n: Node) -> Iterator[Call]:
    """Parts along `axis`, as large as shape inference says: by SPLIT when equal, else by SLICE.

    Source: ONNX Split-2, -11, -13, -18; NDK ANEURALNETWORKS_SPLIT, ANEURALNETWORKS_SLICE.
    """
    x, axis = n.input(0), n.axis(default=0)
    parts = n.outputs
    ranks = [y.rank for y in parts]
    n.require(set(ranks) == {x.rank}, Reason.SHAPE, f"the parts have ranks {ranks} of {x.rank}")
    sizes = [y.shape[axis] for y in parts]
    detail = f"the parts have sizes {sizes} of {x.shape[axis]}"
    n.require(sum(sizes) == x.shape[axis], Reason.SHAPE, detail)
    if x.rank <= MAX_RANK and len(parts) > 1 and len(set(sizes)) == 1:
        call = apply(SPLIT, x, axis=axis, num_splits=len(parts), out=parts)
        if n.supports(call):
            yield call
            return
    begin = 0
    for y in parts:
        taken = [range(size) for size in x.shape]
        taken[axis] = range(begin, begin + y.shape[axis])
        begin += y.shape[axis]
        yield from slice_ranges(n, x, taken, y)


@op("Slice", since=1)
def slice_1(n: Node) -> Iterator[Call]:
    """From `starts` to `ends` along `axes` (default: the first ones), attributes.

    Source: ONNX Slice-1; NDK ANEURALNETWORKS_SLICE.
    """
    starts, ends = n.integers("starts"), n.integers("ends")
    axes = n.integers("axes", range(len(starts)))
    yield from _slice(n, starts, ends, axes, [1] * len(starts))


@op("Slice", since=10)
def slice_10(n: Node) -> Iterator[Call]:
    """From `starts` to `ends` in `steps` (default: 1) along `axes` (default: the first ones).

    All constant; negative ones count from the end.
    Source: ONNX Slice-10, Slice-11, Slice-13; NDK ANEURALNETWORKS_SLICE,
    ANEURALNETWORKS_STRIDED_SLICE.
    """
    starts, ends = n.integers_at(1), n.integers_at(2)
    axes = n.integers_at(3) if n.has(3) else range(len(starts))
    steps = n.integers_at(4) if n.has(4) else [1] * len(starts)
    yield from _slice(n, starts, ends, axes, steps)


def _slice(
    n: Node, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Iterator[Call]:
    x = n.input(0)
    taken = [range(size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = n.normalized(axis, x.rank, "an axis")
        taken[at] = range(*slice(start, end, step).indices(x.shape[at]))
    y, shape = n.output(), tuple(map(len, taken))
    detail = f"{y.name} is declared as {list(y.shape)}; the slice has shape {list(shape)}"
    n.require(y.shape == shape, Reason.SHAPE, detail)
    yield from slice_ranges(n, x, taken, y)


@op("Expand", since=8)
def expand_8(n: Node) -> Iterator[Call]:
    """Broadcast to the inferred shape.

    Source: ONNX Expand-8, Expand-13; NDK ANEURALNETWORKS_TILE.
    """
    x = n.input(0)
    yield from expand(n, x, n.output())


@op("Tile", since=6)
def tile_6(n: Node) -> Iterator[Call]:
    """Repeated along each axis, as often as the shapes say.

    Source: ONNX Tile-6, Tile-13; NDK ANEURALNETWORKS_TILE.
    """
    x, y = n.input(0), n.output()
    repeats = [b // a for a, b in zip(x.shape, y.shape, strict=True)]
    yield from of_any_type(n, x, y, lambda a, b: tile(n, a, x.shape, repeats, b))


@op("DepthToSpace", since=1)
def depth_to_space(n: Node) -> Iterator[Call]:
    """Channels as blocks of pixels; in mode CRD the channels are put in the order of DCR first.

    x [N, C, H, W]
    Source: ONNX DepthToSpace-1, -11, -13; NDK ANEURALNETWORKS_DEPTH_TO_SPACE.
    """
    x, y, size = n.input(0), n.output(), n.integer("blocksize")
    n.require(size > 0, Reason.ATTRIBUTE, f"blocksize is {size}; it must be positive")
    n.require(
        x.shape[1] % (size * size) == 0,
        Reason.SHAPE,
        f"{x.name} has {x.shape[1]} channels, which blocks of {size} x {size} do not divide",
    )
    if n.text("mode", "DCR") == "CRD" and x.shape[1] > size * size:
        x = yield from _block_first(n, x, size * size)
    yield apply(DEPTH_TO_SPACE, images(n, x), block_size=size, layout=layout(n), out=images(n, y))


def _block_first(n: Node, x: Value, pixels: int) -> Computed:
    """Return `x` with its channels reordered from [C, pixels] to [pixels, C].

    By GATHER, or by a transpose where the level has no GATHER.
    """
    batch, channels, high, wide = x.shape
    order = np.arange(channels, dtype=np.int32).reshape(-1, pixels).T.reshape(-1)
    out = n.temp(x)
    call = apply(GATHER, x, axis=1, indices=Constant.of(order), out=out)
    if n.supports(call):
        yield call
        return out
    apart = (batch, channels // pixels, pixels, high * wide)
    seen = yield from reshaped(n, x, apart)
    moved = n.temp(x, [apart[i] for i in (0, 2, 1, 3)])
    yield from permute(n, seen, (0, 2, 1, 3), moved)
    return (yield from reshaped(n, moved, x.shape))


@op("SpaceToDepth", since=1)
def space_to_depth(n: Node) -> Iterator[Call]:
    """Blocks of pixels as channels.

    x [N, C, H, W]
    Source: ONNX SpaceToDepth-1, SpaceToDepth-13; NDK ANEURALNETWORKS_SPACE_TO_DEPTH.
    """
    yield apply(
        SPACE_TO_DEPTH,
        images(n, n.input(0)),
        block_size=n.integer("blocksize"),
        layout=layout(n),
        out=images(n, n.output()),
    )
