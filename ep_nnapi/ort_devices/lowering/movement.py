"""Operations that move elements without computing on them; slices, gathers, lookups and top-k."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.movement import REFLECT, spans
from ep_nnapi.nnapi.sizes import identical, now
from ep_nnapi.nnapi.spec import DATA, F16, F32, I32, NUMBERS, Q8S
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import Op, row
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    Perm,
    composed,
    identity,
    inverse,
    is_coded,
    zero_point,
)


def reshape(op: Op) -> None:
    """The same elements in another shape."""
    op.keep(op.reshape(op.stored("input"), op.shape("output")))


def transpose(op: Op) -> None:
    """Permutes the axes; a transposed layout of the input may be the result as it is.

    A result in NHWC is kept as the NCHW tensor that convolutions read; others transpose it.
    """
    rank = len(op.shape("input"))
    perm = op.ints("perm") if op.given("perm") else tuple(reversed(range(rank)))
    index = op.index("input")
    layout = op.layout("input")
    if layout != identity(rank) or perm == TO_NHWC or not op.scope.perms(index):
        value = op.scope.value(index, layout, real=False)
        op.keep(value, composed(inverse(perm), layout))
        return
    op.keep(op.node("Transpose", op.stored("input"), perm=perm))


def _joined_layout(op: Op, indexes: Sequence[int]) -> Perm:
    """The layout of convolutions if at most half of the elements need a transpose for it.

    As a rule a convolution reads them; else another layout takes one transpose, as this one does.
    """
    perm, scope = op.layout("inputs"), op.scope
    computed = [i for i in indexes if not scope.constant(i)]
    if perm != identity(4) or not any(scope.has(i, TO_NCHW) for i in computed):
        return perm

    def transposed(layout: Perm) -> int:
        return now(sum(prod(scope.shape(i)) for i in computed if not scope.has(i, layout)))

    return TO_NCHW if transposed(TO_NCHW) <= transposed(perm) else perm


def concatenation(op: Op) -> None:
    """Concatenates along an axis; quantized inputs unlike the output are requantized."""
    output = op.operand("output")
    axis = op.axis("axis", op.rank("output"))
    indexes = op.indexes("inputs")
    perm = _joined_layout(op, indexes)
    at = perm.index(axis)
    alike = [op.scope.operand(i).quantization == output.quantization for i in indexes]
    if not is_coded(output) or all(alike):
        parts = [op.scope.value(index, perm, real=False) for index in indexes]
        op.keep(op.joined(parts, at), perm)
    elif op.kernels.fused:  # tables of 256 numbers
        given = list(op.scope.quantization(output))
        for index in indexes:
            given.append(op.scope.value(index, perm, real=False))
            given += op.scope.quantization(op.scope.operand(index))
        op.keep(op.contrib("QLinearConcat", *given, axis=at), perm)
    else:
        pairs = zip(indexes, alike, strict=True)
        values = [(same, op.scope.value(index, perm, real=not same)) for index, same in pairs]
        parts = [v if same else op.scope.quantized(v, output) for same, v in values]
        op.keep(op.joined(parts, at), perm)


def pad(op: Op) -> None:
    """Pads with zeros."""
    _pad(op, zero_point(op.operand("input")) if is_coded(op.operand("input")) else 0)


def pad_v2(op: Op) -> None:
    """Pads with a stored value."""
    moved = 128 if op.operand("input").type is Q8S else 0
    _pad(op, op.scalar("pad_value") + moved)


def _pad(op: Op, value: float) -> None:
    filler = op.array(value, np.uint8 if is_coded(op.operand("input")) else np.float32)
    if not op.scope.constant(op.index("paddings")):
        _pad_by_input(op, filler)
        return
    layout = op.layout("input")
    numbers = op.ints("paddings")
    ends = [numbers[2 * axis + end] for end in (0, 1) for axis in layout]
    op.keep(op.node("Pad", op.stored("input", layout), op.sizes(ends), filler), layout)


def _pad_by_input(op: Op, filler: str) -> None:
    """Pads as a run's paddings say; it fails unless they give the shape that is declared."""
    pairs = op.scope.graph.cast(op.stored("paddings"), TensorProto.INT64)
    some = op.node("GreaterOrEqual", pairs, op.array(0, np.int64))
    pairs = op.checked(pairs, [some], "paddings are negative")
    ends = op.reshape(op.node("Transpose", pairs, perm=(1, 0)), [-1])
    padded = op.node("Pad", op.stored("input"), ends, filler)
    same = op.node("Equal", op.node("Shape", padded), op.sizes(op.shape("output")))
    op.keep(op.checked(padded, [same], "paddings give another shape than the output's"))


def mirror_pad(op: Op) -> None:
    """Pads by mirroring the input at its edges, axis by axis where the edges are repeated."""
    numbers, mode, shape = op.ints("paddings"), op.number("mode"), op.shape("input")
    pairs = [*zip(numbers[::2], numbers[1::2], strict=True)]
    for pair, size in zip(pairs, shape, strict=True):
        require(max(pair) <= size - (mode == REFLECT), "paddings exceed the input")
    value = op.stored("input")
    if mode == REFLECT:
        ends = [pair[end] for end in (0, 1) for pair in pairs]
        op.keep(op.node("Pad", value, op.sizes(ends), mode="reflect"))
        return
    for axis, (pair, size) in enumerate(zip(pairs, shape, strict=True)):
        if any(pair):
            order = np.pad(np.arange(int(size)), pair, mode="symmetric")
            value = op.node("Gather", value, op.array(order, np.int64), axis=axis)
    op.keep(value)


def _int64(op: Op, name: str) -> str:
    """The ONNX value of an INT32 vector as INT64."""
    if op.scope.constant(op.index(name)):
        return op.sizes(op.ints(name))
    return op.scope.graph.cast(op.stored(name), TensorProto.INT64)


def tile(op: Op) -> None:
    """Repeats the tensor along each axis."""
    op.keep(op.node("Tile", op.stored("input"), _int64(op, "multiples")))


def pack(op: Op) -> None:
    """Stacks tensors along a new axis."""
    axis = op.axis("axis", len(op.shape("output")))
    parts = [
        op.node("Unsqueeze", op.scope.value(index, real=False), op.sizes([axis]))
        for index in op.indexes("inputs")
    ]
    op.keep(op.joined(parts, axis))


def split(op: Op) -> None:
    """Splits into equal parts along an axis."""
    layout = op.layout("input")
    axis = op.axis("axis", len(layout))
    outputs = op.indexes("outputs")
    size = op.shape("input")[axis] // len(outputs)
    sizes, at = [size] * len(outputs), layout.index(axis)
    names = op.divided(op.stored("input", layout), sizes, at)
    for index, name in zip(outputs, names, strict=True):
        op.scope.define(index, name, layout, real=False)


_BEFORE_ALL = -(2**31)
"""End of an ONNX slice that runs backwards to the first element."""


def slice_(op: Op) -> None:
    """Copies a block, of a known size but anywhere."""
    shape, whole = op.shape("output"), op.scope.dims.get(op.index("input"), (None,))
    if op.scope.constant(op.index("begin")) and None not in whole:
        _slice_at(op, op.ints("begin"), shape)
        return
    begin = _int64(op, "begin")
    ends = op.node("Add", begin, op.sizes(shape))
    found = op.node("Slice", op.stored("input"), begin, ends)
    op.keep(op.reshape(found, shape))  # fails if it was clamped


def _slice_at(op: Op, begin: Sequence[int], shape: Sequence[int]) -> None:
    """A block that begins at these elements, of the axes that are not taken whole."""
    parts = list(zip(begin, shape, op.shape("input"), strict=True))
    require(all(b >= 0 and b + n <= size for b, n, size in parts), "a slice ends beyond its input")
    axes = [i for i, (_, n, size) in enumerate(parts) if not identical((n,), (size,))]
    starts, ends = [begin[i] for i in axes], [begin[i] + shape[i] for i in axes]
    value = op.stored("input")
    if axes:
        value = op.node("Slice", value, op.sizes(starts), op.sizes(ends), op.sizes(axes))
    op.keep(value)


def strided_slice(op: Op) -> None:
    """Copies a block with strides."""
    shape = op.shape("input")
    bounds = (op.ints("begin"), op.ints("end"), op.ints("strides"))
    taken = spans(shape, bounds, op.number("begin_mask"), op.number("end_mask"))
    ends = [r.stop if r.stop >= 0 else _BEFORE_ALL for r in taken]
    value = op.node(
        "Slice",
        op.stored("input"),
        op.sizes([r.start for r in taken]),
        op.sizes(ends),
        op.sizes(range(len(shape))),
        op.sizes([r.step for r in taken]),
    )
    op.keep(op.reshape(value, op.shape("output")))


def gather(op: Op) -> None:
    """Gathers slices along an axis by index.

    An index below zero becomes one beyond the end, which ONNX Runtime refuses too.
    """
    axis = op.axis("axis", len(op.shape("input")))
    size = op.shape("input")[axis]
    sized = op.sized("indices")
    at = "" if sized else op.stored("indices")
    if sized:
        require(all(0 <= number < size for number in sized), "an index is out of range")
        at = op.reshape(op.sizes(sized), op.shape("indices"))
    elif op.scope.constant(op.index("indices")):
        numbers = op.constant("indices")
        require(bool(np.all((numbers >= 0) & (numbers < size))), "an index is out of range")
    else:
        negative = op.node("Less", at, op.array(0, np.int32))
        beyond = op.node("Cast", op.sizes([size]), to=TensorProto.INT32)
        at = op.node("Where", negative, beyond, at)
    op.keep(op.node("Gather", op.stored("input"), at, axis=axis))


def topk_v2(op: Op) -> None:
    """The k greatest elements, descending, and their indexes; the last of equal ones first.

    ONNX puts the first of equal ones first, so the rows are reversed.
    """
    shape = op.shape("input")
    size, last = shape[-1], len(shape) - 1
    value, coded = op.stored("input"), is_coded(op.operand("input"))
    if coded:
        value = op.node("Cast", value, to=TensorProto.INT32)
    backwards = (op.sizes([number]) for number in (-1, _BEFORE_ALL, last, -1))
    reversed_rows = op.node("Slice", value, *backwards)
    values, places = op.scope.graph.many(
        "TopK", 2, reversed_rows, op.sizes([op.number("k")]), axis=last
    )
    if coded:
        values = op.node("Cast", values, to=TensorProto.UINT8)
    op.keep(values, output="values")
    indexes = op.node("Sub", op.sizes([size - 1]), places)
    op.keep(op.node("Cast", indexes, to=TensorProto.INT32), output="indices")


def fill(op: Op) -> None:
    """A tensor of one value."""
    op.keep(op.node("Expand", op.real("value"), op.sizes(op.shape("output"))))


ROWS = (
    row(spec.RESHAPE, reshape, *NUMBERS),
    row(spec.SQUEEZE, reshape, *DATA),
    row(spec.EXPAND_DIMS, reshape, *NUMBERS),
    row(spec.TRANSPOSE, transpose, *DATA),
    row(spec.CONCATENATION, concatenation, *DATA),
    row(spec.PAD, pad, *DATA),
    row(spec.PAD_V2, pad_v2, *DATA),
    row(spec.MIRROR_PAD, mirror_pad, *NUMBERS),
    row(spec.TILE, tile, *NUMBERS),
    row(spec.PACK, pack, *NUMBERS),
    row(spec.SPLIT, split, *NUMBERS),
    row(spec.FILL, fill, F32, F16, I32),
    row(spec.SLICE, slice_, *NUMBERS),
    row(spec.STRIDED_SLICE, strided_slice, *DATA),
    row(spec.GATHER, gather, *NUMBERS),
    row(spec.TOPK_V2, topk_v2, *NUMBERS),
)
