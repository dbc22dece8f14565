"""Kernels that move elements without computing on them; slices, gather, lookup and top-k."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.codec import decode, encode
from ep_nnapi.nnapi.host.kernel import Types, rows_of, stored, view
from ep_nnapi.nnapi.shapes.movement import REFLECT, spans
from ep_nnapi.nnapi.shapes.operands import ShapeError, require
from ep_nnapi.nnapi.spec import DATA, F16, F32, I32, NUMBERS, Q8, Q8S


def reshape(input: Array, *, out: Array, **operands: object) -> None:
    """Reshapes."""
    np.copyto(out, input.reshape(out.shape))


def transpose(input: Array, perm: Array | None = None, *, out: Array) -> None:
    """Permutes the axes; reverses them by default."""
    np.copyto(out, input.transpose(None if perm is None else perm.tolist()))


def concatenation(inputs: tuple[Array, ...], axis: int, *, out: Array) -> None:
    """Concatenates along an axis."""
    np.concatenate(inputs, axis=axis, out=out)


def concatenation_quantized(
    inputs: tuple[Array, ...], axis: int, *, types: Types, out: Array
) -> None:
    """`concatenation` of quantized tensors; requantizes inputs unlike the output."""
    start, output = 0, types["output"]
    ends = np.moveaxis(out, axis, 0)
    for array, operand in zip(inputs, types.many("inputs"), strict=True):
        part = ends[start : start + array.shape[axis]]
        start += array.shape[axis]
        if operand.quantization == output.quantization:
            np.copyto(part, np.moveaxis(array, axis, 0))
        else:
            encode(np.moveaxis(decode(array, operand), axis, 0), output, part)


def pad(input: Array, paddings: Array, *, types: Types, out: Array) -> None:
    """Pads with zeros (the zero point if quantized)."""
    _pad(input, paddings, types["input"].zero_point, out)


def pad_v2(input: Array, paddings: Array, pad_value: float, *, out: Array) -> None:
    """Pads with a stored value."""
    _pad(input, paddings, pad_value, out)


def _pad(input: Array, paddings: Array, value: float, out: Array) -> None:
    out.fill(value)
    out[tuple(_inner(input, paddings))] = input


def _inner(input: Array, paddings: Array) -> Iterator[slice]:
    """Yields per axis the slice of the padded tensor that holds the input."""
    for (before, _), size in zip(paddings.tolist(), input.shape, strict=True):
        yield slice(before, before + size)


def mirror_pad(input: Array, paddings: Array, mode: int, *, out: Array) -> None:
    """Pads by mirroring the input at its edges."""
    skipped = 1 if mode == REFLECT else 0  # the edge itself is not repeated
    inner = list(_inner(input, paddings))
    out[tuple(inner)] = input
    for axis, (before, after) in enumerate(paddings.tolist()):
        size = input.shape[axis]
        most = size - skipped
        require(max(before, after) <= most, f"paddings {before}, {after} of a size of {size}")
        inner[axis] = slice(None)  # earlier axes are padded already, so copy their whole extent
        along = np.moveaxis(out[tuple(inner)], axis, 0)
        along[:before] = along[before + skipped : 2 * before + skipped][::-1]
        end = before + size
        along[end:] = along[end - skipped - after : end - skipped][::-1]


def reverse(input: Array, axis: Array, *, out: Array) -> None:
    """Reverses an axis."""
    np.copyto(out, np.flip(input, int(axis.item())))


def tile(input: Array, multiples: Array, *, out: Array) -> None:
    """Repeats the tensor along each axis."""
    pairs = [i for pair in zip(multiples.tolist(), input.shape, strict=True) for i in pair]
    ones = [i for size in input.shape for i in (1, size)]
    np.copyto(out.reshape(pairs), input.reshape(ones))


def pack(axis: int, inputs: tuple[Array, ...], *, out: Array) -> None:
    """Stacks tensors along a new axis."""
    np.stack(inputs, axis, out=out)


def split(input: Array, axis: int, num_splits: int, *, out: tuple[Array, ...]) -> None:
    """Splits into equal parts along an axis."""
    for part, target in zip(np.split(input, num_splits, axis), out, strict=True):
        np.copyto(target, part)


def slice_(input: Array, begin: Array, size: Array, *, out: Array) -> None:
    """Copies a block of the input."""
    starts = begin.tolist()
    np.copyto(out, input[tuple(slice(s, s + n) for s, n in zip(starts, out.shape, strict=True))])


def strided_slice(
    input: Array,
    begin: Array,
    end: Array,
    strides: Array,
    begin_mask: int,
    end_mask: int,
    shrink_axis_mask: int,
    *,
    out: Array,
) -> None:
    """Copies a block of the input with strides."""
    bounds = (begin.tolist(), end.tolist(), strides.tolist())
    taken = [span.indexes for span in spans(input.shape, bounds, begin_mask, end_mask)]
    part = input[tuple(slice(r.start, None if r.stop < 0 else r.stop, r.step) for r in taken)]
    np.copyto(out, part.reshape(out.shape))


def gather(input: Array, axis: int, indices: Array, *, out: Array) -> None:
    """Gathers slices along `axis` by index."""
    size = input.shape[axis]
    inside = indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < size)
    require(inside, f"an index is outside a dimension of {size}")
    np.take(input, indices, axis, out=out, mode="clip")


def topk_v2(input: Array, k: int, *, out: tuple[Array, Array]) -> None:
    """Stores the k greatest elements, descending, and their indices; of equals the last first."""
    values, indices = out
    order = np.argsort(input, axis=-1, kind="stable")[..., ::-1][..., :k]
    np.copyto(indices, order, casting="same_kind")
    np.copyto(values, np.take_along_axis(input, order, axis=-1))


def embedding_lookup(lookups: Array, values: Array, *, out: Array) -> None:
    """Returns rows of `values` by index.

    Raises ShapeError for an index out of range.
    """
    wrong = lookups[(lookups < 0) | (lookups >= values.shape[0])]
    if wrong.size:
        raise ShapeError(f"there is no row {wrong[0]} of {values.shape[0]}")
    np.take(values, lookups, 0, out=out, mode="clip")


def fill(dims: Array, value: float, *, out: Array) -> None:
    """Fills the output with one value."""
    out.fill(value)


def rank(input: Array, *, out: Array) -> None:
    """Number of dimensions."""
    out.fill(input.ndim)


KERNELS = (
    *(view(each, reshape) for each in (spec.RESHAPE, spec.SQUEEZE, spec.EXPAND_DIMS)),
    stored(spec.CONCATENATION, concatenation, F32, F16),
    stored(spec.CONCATENATION, concatenation_quantized, Q8, Q8S),
    *rows_of(stored, DATA, transpose, pad, pad_v2, strided_slice),
    *rows_of(stored, NUMBERS, mirror_pad, reverse, tile, pack, split, embedding_lookup),
    *rows_of(stored, NUMBERS, slice_, gather, topk_v2),
    stored(spec.FILL, fill, F32, F16, I32),
    stored(spec.RANK, rank),
)
