"""Data movement: Reshape and its relatives, Transpose, Concat, Split, Expand, Tile, Pad, blocks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value, only_element
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.shapes.movement import REFLECT
from ep_nnapi.nnapi.sizes import identical, is_symbolic
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.convolution import images, layout
from ep_nnapi.operators.lib.movement import (
    along,
    expand,
    positions,
    runs,
    sizes_around,
    slice_spans,
    tile,
    transposed,
)
from ep_nnapi.operators.lib.movement import transpose as permute
from ep_nnapi.operators.lib.node import (
    EXACT_IN_FLOAT,
    Computed,
    Node,
    Operator,
    each,
    int32,
    op,
)
from ep_nnapi.operators.lib.quantizing import dequantized


def lower(n: Node) -> Iterator[Call]:
    """Emit the first input reshaped to the inferred shape of the output."""
    n.require_same_quantization(n.input(0), n.output())
    yield from n.reshape(n.input(0), n.output())


def reshaping(op_type: str, doc: str) -> Operator:
    """Return an operator whose output has the elements of its first input, in order."""
    return Operator(op_type, "", 1, lower, doc, moves=True)


TABLE = (
    reshaping("Reshape", "The elements in another shape (0 and -1 are resolved before)."),
    reshaping("Flatten", "All dimensions before `axis` as one, the others as another."),
    reshaping("Squeeze", "Without dimensions of 1."),
    reshaping("Unsqueeze", "With more dimensions of 1."),
    reshaping("Identity", "The same tensor."),
)


@op("Dropout", since=7)
def dropout_7(n: Node) -> Iterator[Call]:
    """The input as it is: nothing is dropped in inference."""
    n.require(not n.has_output(1), Reason.ATTRIBUTE, "output mask is used; NNAPI has no dropout")
    yield from lower(n)


@op("Dropout", since=12)
def dropout_12(n: Node) -> Iterator[Call]:
    """The input as it is, where `training_mode` is constant and false or left out."""
    trains = n.has(2) and bool(n.array(2).any())
    n.require(not trains, Reason.ATTRIBUTE, "training_mode is true; NNAPI supports only inference")
    yield from dropout_7.lower(n)


@op("Transpose", since=1, moves=True)
def transpose(n: Node) -> Iterator[Call]:
    """Axes permuted; reversed without `perm`."""
    x = n.input(0)
    perm = n.integers("perm", range(x.rank)[::-1])
    detail = f"perm {list(perm)} does not permute the {x.rank} axes of {x.name}"
    n.require(sorted(perm) == list(range(x.rank)), Reason.ATTRIBUTE, detail)
    yield from n.of_any_type(x, n.output(), lambda a, b: permute(n, a, perm, b))


@op("Concat", since=4, moves=True)
def concat(n: Node) -> Iterator[Call]:
    """Tensors one behind the other along `axis`."""
    y, axis = n.output(), n.axis()
    parts = [list(x.shape) for x in n.inputs]
    together = {len(p) for p in parts} == {y.rank} and sum(p[axis] for p in parts) == y.shape[axis]
    detail = f"{y.name} has shape {list(y.shape)}; the parts along axis {axis} have {parts}"
    n.require(together, Reason.SHAPE, detail)
    if len(n.inputs) == 1:
        yield from n.of_any_type(n.input(0), y, n.reshape)
    elif y.dtype is DType.BOOL:
        numbers = yield from each(n.as_number(x) for x in n.inputs)
        whole = n.temp(numbers[0], y.shape)
        yield from _concatenated(n, numbers, axis, whole)
        yield apply(spec.NOT_EQUAL, whole, n.scalar(0, whole), out=y)
    else:
        yield from _concatenated(n, n.inputs, axis, y)


def _concatenated(n: Node, parts: Sequence[Value], axis: int, y: Value) -> Iterator[Call]:
    """Emit CONCATENATION; it does not take INT32: PACK replaces it there for equal shapes.

    Small numbers are floats meanwhile.
    """
    if y.dtype is DType.INT32 and all(p.shape == parts[0].shape for p in parts):
        before, size, after = sizes_around(parts[0].shape, axis)
        rows = yield from each(n.reshaped(p, (before, size * after)) for p in parts)
        packed = n.temp(y, (before, len(parts), size * after))
        yield apply(spec.PACK, axis=1, inputs=rows, out=packed)
        yield from n.reshape(packed, y)
    elif y.dtype is DType.INT32 and y.magnitude is not None and y.magnitude <= EXACT_IN_FLOAT:
        floats = yield from each(_as_floats(n, p) for p in parts)
        whole = n.temp(floats[0], y.shape)
        yield from _concatenated(n, floats, axis, whole)
        yield apply(spec.CAST, whole, out=y)
    elif y.rank <= MAX_RANK:
        yield apply(spec.CONCATENATION, inputs=parts, axis=axis, out=y)
    else:
        rows = yield from each(n.reshaped(p, sizes_around(p.shape, axis)) for p in parts)
        shape = sizes_around(y.shape, axis)
        yield from n.compute_as(y, shape, spec.CONCATENATION, inputs=rows, axis=1)


def _as_floats(n: Node, x: Value) -> Computed:
    if x.constant is not None and not x.constant.numbers:
        return n.recast(x, DType.FLOAT)
    return (yield from n.compute(spec.CAST, x, dtype=DType.FLOAT))


@op("Split", since=2, moves=True)
def split(n: Node) -> Iterator[Call]:
    """Parts along `axis`, as large as shape inference says: by SPLIT when equal, else by SLICE.

    Sizes that are equal for some values of their symbols alone are taken by SLICE too.
    """
    x, axis = n.input(0), n.axis(default=0)
    parts = n.outputs
    ranks = [y.rank for y in parts]
    n.require(set(ranks) == {x.rank}, Reason.SHAPE, f"the parts have ranks {ranks} of {x.rank}")
    sizes = [y.shape[axis] for y in parts]
    detail = f"the parts have sizes {sizes} of {x.shape[axis]}"
    n.require(sum(sizes) == x.shape[axis], Reason.SHAPE, detail)
    if x.rank <= MAX_RANK and len(parts) > 1 and identical(sizes, [sizes[0]] * len(parts)):
        call = apply(spec.SPLIT, x, axis=axis, num_splits=len(parts), out=parts)
        if n.supports(call):
            yield call
            return
    begin = 0
    for y in parts:
        taken = Span(begin, begin + y.shape[axis])
        begin += y.shape[axis]
        yield from slice_spans(n, x, along(x.shape, axis, taken), y)


@op("Slice", since=1, moves=True)
def slice_1(n: Node) -> Iterator[Call]:
    """From `starts` to `ends` along `axes` (default: the first ones), attributes."""
    starts, ends = n.integers("starts"), n.integers("ends")
    axes = n.integers("axes", range(len(starts)))
    yield from _slice(n, starts, ends, axes, [1] * len(starts))


@op("Slice", since=10)
def slice_10(n: Node) -> Iterator[Call]:
    """From `starts` to `ends` in `steps` (default: 1) along `axes` (default: the first ones).

    All constant; negative ones count from the end.
    """
    starts, ends = n.integers_at(1), n.integers_at(2)
    axes = n.integers_at(3) if n.has(3) else range(len(starts))
    steps = n.integers_at(4) if n.has(4) else [1] * len(starts)
    yield from _slice(n, starts, ends, axes, steps)


def _slice(
    n: Node, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Iterator[Call]:
    x = n.input(0)
    taken = [Span.whole(size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = n.normalized(axis, x.rank, "an axis")
        taken[at] = Span.of_slice(start, end, step, x.shape[at])
    y, shape = n.output(), tuple(span.size for span in taken)
    detail = f"{y.name} is declared as {list(y.shape)}; the slice has shape {list(shape)}"
    n.require(y.shape == shape, Reason.SHAPE, detail)
    yield from slice_spans(n, x, taken, y)


@op("Expand", since=8, moves=True)
def expand_8(n: Node) -> Iterator[Call]:
    """Broadcast to the inferred shape."""
    x = n.input(0)
    yield from expand(n, x, n.output())


@op("Tile", since=6, moves=True)
def tile_6(n: Node) -> Iterator[Call]:
    """Repeated along each axis, as often as the shapes say."""
    x, y = n.input(0), n.output()
    repeats = [b // a for a, b in zip(x.shape, y.shape, strict=True)]
    yield from n.of_any_type(x, y, lambda a, b: tile(n, a, x.shape, repeats, b))


@op("DepthToSpace", since=1, moves=True)
def depth_to_space(n: Node) -> Iterator[Call]:
    """Channels as blocks of pixels; in mode CRD the channels are put in the order of DCR first.

    x [N, C, H, W]
    """
    x, y, size = n.input(0), n.output(), n.integer("blocksize")
    n.require(size > 0, Reason.ATTRIBUTE, f"blocksize is {size}; it must be positive")
    detail = f"{x.name} has {x.shape[1]} channels, which blocks of {size} x {size} do not divide"
    n.require(x.shape[1] % (size * size) == 0, Reason.SHAPE, detail)
    if n.text("mode", "DCR") == "CRD" and x.shape[1] > size * size:
        x = yield from _block_first(n, x, size * size)
    yield apply(
        spec.DEPTH_TO_SPACE, images(n, x), block_size=size, layout=layout(n), out=images(n, y)
    )


def _block_first(n: Node, x: Value, pixels: int) -> Computed:
    """Return `x` with its channels reordered from [C, pixels] to [pixels, C].

    By GATHER, or by a transpose where the level has no GATHER.
    """
    batch, channels, high, wide = x.shape
    order = np.arange(channels, dtype=np.int32).reshape(-1, pixels).T.reshape(-1)
    out = n.temp(x)
    call = apply(spec.GATHER, x, axis=1, indices=Constant.of(order), out=out)
    if n.supports(call):
        yield call
        return out
    apart = (batch, channels // pixels, pixels, high * wide)
    seen = yield from n.reshaped(x, apart)
    moved = yield from transposed(n, seen, (0, 2, 1, 3))
    return (yield from n.reshaped(moved, x.shape))


@op("SpaceToDepth", since=1, moves=True)
def space_to_depth(n: Node) -> Iterator[Call]:
    """Blocks of pixels as channels.

    x [N, C, H, W]
    """
    yield apply(
        spec.SPACE_TO_DEPTH,
        images(n, n.input(0)),
        block_size=n.integer("blocksize"),
        layout=layout(n),
        out=images(n, n.output()),
    )


Paddings = Sequence[tuple[int, int]]
_NEAR_INTEGER = 1e-3
"""Tolerance, in quantization steps, for a pad value to be representable: scales are float32."""


@op("Pad", since=2, moves=True)
def pad_2(n: Node) -> Iterator[Call]:
    """Padded by the attributes `pads`, `value` and `mode`."""
    given = _by_axis(n, n.integers("pads"), range(n.input(0).rank))
    yield from _pad(n, given, n.real("value", 0.0))


@op("Pad", since=11)
def pad_11(n: Node) -> Iterator[Call]:
    """Padded by constant `pads` (negative ones crop), along `axes` (default: all)."""
    x, pads = n.input(0), n.integers_at(1)
    axes = n.integers_at(3) if n.has(3) else range(x.rank)
    yield from _pad(n, _by_axis(n, pads, axes), _number(n) if n.has(2) else 0.0)


def _by_axis(n: Node, pads: Sequence[int], axes: Sequence[int]) -> Mapping[int, tuple[int, int]]:
    """Return the padding before and after by axis; raise Reject unless there are two for each."""
    half, rank = len(axes), n.input(0).rank
    detail = f"{len(pads)} pads are given for {half} axes"
    n.require(len(pads) == 2 * half, Reason.SHAPE, detail)
    at = [n.normalized(axis, rank, "an axis") for axis in axes]
    return dict(zip(at, zip(pads[:half], pads[half:], strict=True), strict=True))


def _number(n: Node) -> float:
    """Return the constant pad value; in a QDQ group, the real number."""
    n.constant(2)
    found = dequantized(n.input(2)).constant
    return float(only_element(found, n.input(2).name)) if found is not None else 0.0


def _pad(n: Node, given: Mapping[int, tuple[int, int]], number: float) -> Iterator[Call]:
    x, y, mode = n.input(0), n.output(), n.text("mode", "constant")
    paddings = [given.get(axis, (0, 0)) for axis in range(x.rank)]
    some = all(_kept(*pair).size for pair in zip(x.shape, paddings, strict=True))
    n.require(some, Reason.SHAPE, f"pads remove all elements of {x.name}")
    if mode == "constant":
        yield from n.of_any_type(x, y, lambda a, b: _constant(n, a, paddings, number, b))
    else:
        yield from n.of_any_type(x, y, lambda a, b: _by_copying(n, a, paddings, mode, b))


def _kept(size: int, padding: tuple[int, int]) -> Span:
    """Return the indexes of an axis that negative pads do not remove."""
    before, after = padding
    return Span(max(0, -before), size - max(0, -after))


def _constant(n: Node, x: Value, paddings: Paddings, number: float, y: Value) -> Iterator[Call]:
    """Emit the crop of negative pads, then PAD if the pad value is 0, else PAD_V2."""
    spans = [_kept(*pair) for pair in zip(x.shape, paddings, strict=True)]
    shape = [span.size for span in spans]
    if tuple(shape) != x.shape:
        part = n.temp(x, shape)
        yield from slice_spans(n, x, spans, part)
        x = part
    added = [(max(before, 0), max(after, 0)) for before, after in paddings]
    sizes, rows = list(shape), added
    if x.rank > MAX_RANK:
        groups = runs([i if any(p) else -1 for i, p in enumerate(added)])
        sizes = [prod(shape[i] for i in g) for g in groups]
        rows = [added[g[0]] for g in groups]
        n.require(
            len(sizes) <= MAX_RANK, Reason.RANK, f"{x.name} folds to {len(sizes)} axes, PAD takes 4"
        )
    if n.target.kernel_level == 2 and x.dtype is not DType.FLOAT16:  # which has no PAD there
        more = MAX_RANK - len(sizes)
        sizes, rows = [1] * more + sizes, [(0, 0)] * more + rows
    seen = yield from n.reshaped(x, sizes)
    result = n.output_or_temp(y, [s + sum(row) for s, row in zip(sizes, rows, strict=True)])
    yield _added(n, seen, rows, number, result)
    yield from n.write_output(result, y)


def _added(n: Node, x: Value, rows: Paddings, number: float, y: Value) -> Call:
    """Return the PAD or PAD_V2 call; PAD pads a quantized tensor with its zero point.

    In a QDQ group `number` is real and is quantized; otherwise it is the stored integer.
    """
    paddings = _table(rows)
    q = x.quantization
    if q is not None:
        stored = _stored(x, number) if n.node.parts else int(number)
        call = apply(spec.PAD_V2, x, paddings=paddings, pad_value=stored, out=y)
        # at levels without PAD_V2, the pad value of PAD for a quantized tensor is undefined
        zeros = stored == q.zero_point[0] and n.supports(call)
        return apply(spec.PAD, x, paddings=paddings, out=y) if zeros else call
    if number == 0:
        return apply(spec.PAD, x, paddings=paddings, out=y)
    return apply(spec.PAD_V2, x, paddings=paddings, pad_value=number, out=y)


def _table(paddings: Paddings) -> Constant:
    return int32([number for row in paddings for number in row]).reshaped((len(paddings), 2))


def _stored(x: Value, number: float) -> int:
    """Return `number` quantized as `x`; raise Reject(QUANTIZATION) if it is not representable."""
    q = x.quantization
    limits = np.iinfo(x.dtype.numpy)
    exact = number / q.scale[0] + q.zero_point[0] if q is not None else number
    if not limits.min <= exact <= limits.max or abs(exact - round(exact)) > _NEAR_INTEGER:
        raise Reject(Reason.QUANTIZATION, f"{x.name} cannot store the pad value {number:g} exactly")
    return round(exact)


def _by_copying(n: Node, x: Value, paddings: Paddings, mode: str, y: Value) -> Iterator[Call]:
    """Emit MIRROR_PAD for mode reflect; for other modes and lower levels, a GATHER on each axis."""
    known = ("reflect", "edge", "wrap")
    n.require(mode in known, Reason.ATTRIBUTE, f"mode is {mode!r}; ONNX has {', '.join(known)}")
    if mode == "reflect" and 0 < x.rank <= MAX_RANK and min(map(min, paddings)) >= 0:
        call = apply(spec.MIRROR_PAD, x, paddings=_table(paddings), mode=REFLECT, out=y)
        within = all(max(p) < size for p, size in zip(paddings, x.shape, strict=True))
        if within and n.supports(call):
            yield call
            return
    yield from _gathered(n, x, paddings, mode, y)


def _gathered(n: Node, x: Value, paddings: Paddings, mode: str, y: Value) -> Iterator[Call]:
    shape = list(x.shape)
    axes = [axis for axis, padding in enumerate(paddings) if any(padding)]
    if not axes:
        yield from n.reshape(x, y)
    for axis in axes:
        places = yield from _source_positions(n, shape[axis], paddings[axis], mode)
        seen = sizes_around(shape, axis) if x.rank > MAX_RANK or len(shape) > MAX_RANK else None
        part = x if seen is None else (yield from n.reshaped(x, seen))
        shape[axis] = places.shape[0]
        last = axis == axes[-1]
        target = shape if seen is None else sizes_around(shape, axis)
        result = n.output_or_temp(y, target) if last else n.temp(x, target)
        yield apply(spec.GATHER, part, axis=axis if seen is None else 1, indices=places, out=result)
        x = result
    if axes:
        yield from n.write_output(x, y)


def _source_positions(
    n: Node, size: int, padding: tuple[int, int], mode: str
) -> Generator[Call, None, Value | Constant]:
    """Return the source index of each output element, of edges by their distance if symbolic."""
    before, after = padding
    if mode != "edge" or min(padding) < 0 or not is_symbolic((size,)):
        return int32(_source_indexes(size, padding, mode))
    every = yield from positions(n, size + before + after)
    inside = yield from n.compute(spec.SUB, every, n.scalar(before, every))
    for row, end in ((spec.MAXIMUM, 0), (spec.MINIMUM, size - 1)):
        inside = yield from n.compute(row, inside, n.scalar(end, inside))
    return inside


def _source_indexes(size: int, padding: tuple[int, int], mode: str) -> list[int]:
    """Return the source index of each output element along an axis; negative pads crop first."""
    before, after = padding
    added = (max(0, before), max(0, after))
    found: list[int] = np.pad(_kept(size, padding).indexes, added, mode=mode).tolist()  # type: ignore[call-overload]
    return found
