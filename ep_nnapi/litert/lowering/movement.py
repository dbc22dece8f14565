"""Operations that move elements without computing on them; slices, gathers and lookups."""

from __future__ import annotations

from functools import partial

import numpy as np

from ep_nnapi.litert.lowering.convolution import filler
from ep_nnapi.litert.operation import DATA, NUMBERS, FlatOp, direct, stored
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import row


def reshape(op: FlatOp) -> None:
    """The same elements in another shape."""
    op.same_quantization("input")
    signed = op.signed("input")
    shape = op.shape("output")
    op.finish(op.graph.reshaped(op.tensor("input", signed=signed), shape), signed=signed)


def transpose(op: FlatOp) -> None:
    """Permutes the axes."""
    rank = op.rank("input")
    perm = op.ints("perm") if op.given("perm") else tuple(reversed(range(rank)))
    op.run("TRANSPOSE", ["input", op.graph.ints(perm)])


def concatenation(op: FlatOp) -> None:
    """Concatenates along an axis; quantized inputs unlike the output are requantized."""
    signed = op.signed("inputs")
    axis = op.axis("axis", op.rank("output"))
    parts = [op.requantized(index, signed=signed) for index in op.indexes("inputs")]
    out = [op.out(signed=signed)]
    op.graph.operator("CONCATENATION", parts, out, {"axis": axis})


def pad(op: FlatOp) -> None:
    """Pads with zeros."""
    op.same_quantization("input")
    op.run("PAD", ["input", "paddings"])


def pad_v2(op: FlatOp) -> None:
    """Pads with a stored value."""
    op.same_quantization("input")
    signed, operand = op.signed("input"), op.operand("input")
    value = op.tensor("input", signed=signed)
    number = np.array([op.scalar("pad_value")], operand.type.numpy)
    fill = filler(op, value, stored(number, operand.type, signed=signed).item())
    op.run("PADV2", ["input", op.tensor("paddings"), fill])


def pack(op: FlatOp) -> None:
    """Stacks tensors along a new axis."""
    axis, count = op.axis("axis", op.rank("output")), len(op.indexes("inputs"))
    op.run("PACK", ["inputs"], axis=axis, valuesCount=count)


def split(op: FlatOp) -> None:
    """Splits into equal parts along an axis."""
    signed = op.signed("input")
    axis = op.graph.ints([op.axis("axis", op.rank("input"))])
    parts = []
    for index in op.indexes("outputs"):
        parts.append(op.graph.tensor(op.scope.described(index, signed=signed)))
        op.scope.define(index, parts[-1], signed=signed)
    inputs = [axis, op.tensor("input", signed=signed)]
    op.graph.operator("SPLIT", inputs, parts, {"numSplits": len(parts)})


def fill(op: FlatOp) -> None:
    """A tensor of one number."""
    result = op.described(signed=False)
    if op.scope.constant(op.index("value")):
        value = op.graph.array(np.array(op.scalar("value"), result.dtype))
    else:
        value = op.tensor("value")
    op.run("FILL", [op.tensor("dims"), value])


def rank(op: FlatOp) -> None:
    """The number of axes."""
    op.finish(op.graph.array(np.array(op.rank("input"), np.int32)))


def slice_(op: FlatOp) -> None:
    """Copies a block."""
    op.same_quantization("input")
    op.run("SLICE", ["input", "begin", "size"])


def strided_slice(op: FlatOp) -> None:
    """Copies a block with strides."""
    op.same_quantization("input")
    masks = {
        "beginMask": op.number("begin_mask"),
        "endMask": op.number("end_mask"),
        "shrinkAxisMask": op.number("shrink_axis_mask"),
    }
    every = (1 << op.rank("input")) - 1
    require(masks["shrinkAxisMask"] & every != every, "it removes every axis")
    op.run("STRIDED_SLICE", ["input", "begin", "end", "strides"], **masks)


def gather(op: FlatOp) -> None:
    """Gathers slices along an axis by index."""
    op.same_quantization("input")
    axis = op.axis("axis", op.rank("input"))
    _check_indexes(op, "indices", op.shape("input")[axis])
    op.run("GATHER", ["input", op.tensor("indices")], axis=axis)


def embedding_lookup(op: FlatOp) -> None:
    """Rows of `values` by index."""
    op.same_quantization("values")
    _check_indexes(op, "lookups", op.shape("values")[0])
    op.run("GATHER", ["values", op.tensor("lookups")], axis=0)


def topk_v2(op: FlatOp) -> None:
    """The k largest elements along the last axis and their indexes.

    Of equal elements LiteRT has the first one first, NNAPI the last: the axis is reversed.
    """
    signed = op.signed("input")
    value, last = op.tensor("input", signed=signed), op.rank("input") - 1
    given = op.graph.tensors[value]
    mirrored = op.computed("REVERSE_V2", [value, op.graph.ints([last])], given)
    places = op.graph.tensor(op.described("indices", signed=False))
    inputs = [mirrored, op.graph.array(np.array(op.scalar("k"), np.int32))]
    outputs = [op.out("values", signed=signed), places]
    op.graph.operator("TOPK_V2", inputs, outputs)
    end = op.graph.ints([given.shape[-1] - 1])
    op.graph.operator("SUB", [end, places], [op.out("indices")])


def _check_indexes(op: FlatOp, name: str, size: int) -> None:
    """Raises Inexpressible for constant indexes out of range."""
    if op.scope.constant(op.index(name)):
        numbers = op.constant(name)
        require(numbers.min() >= 0 and int(numbers.max()) < size, "an index is out of range")


ROWS = (
    row(spec.RESHAPE, reshape, *NUMBERS),
    row(spec.SQUEEZE, reshape, *DATA),
    row(spec.EXPAND_DIMS, reshape, *NUMBERS),
    row(spec.TRANSPOSE, transpose, *DATA),
    row(spec.CONCATENATION, concatenation, *DATA),
    row(spec.PAD, pad, *DATA),
    row(spec.PAD_V2, pad_v2, *DATA),
    row(spec.MIRROR_PAD, partial(direct, "MIRROR_PAD", mode="mode"), *NUMBERS),
    row(spec.REVERSE, partial(direct, "REVERSE_V2"), *NUMBERS),
    row(spec.TILE, partial(direct, "TILE"), *NUMBERS),
    row(spec.PACK, pack, *NUMBERS),
    row(spec.SPLIT, split, *NUMBERS),
    row(spec.FILL, fill, F32, I32),
    row(spec.RANK, rank),
    row(spec.SLICE, slice_, *NUMBERS),
    row(spec.STRIDED_SLICE, strided_slice, F32, Q8, Q8S),
    row(spec.GATHER, gather, *NUMBERS),
    row(spec.TOPK_V2, topk_v2, *NUMBERS),
    row(spec.EMBEDDING_LOOKUP, embedding_lookup, *NUMBERS),
)
