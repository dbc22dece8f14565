"""Shape inference for operations that move or copy elements: reshape, pad, slice, gather, top-k."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import prod

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    Tensor,
    axes_of,
    axis_of,
    by_name,
    require,
    unify,
    vector,
)
from ep_nnapi.nnapi.spans import Span

REFLECT = 0
"""Mode that does not repeat the edge; 1 is symmetric. Source: NDK ANEURALNETWORKS_MIRROR_PAD."""


def reshape(input: Tensor, shape: Tensor) -> Dims:
    """The sizes in `shape`; one may be -1 and is computed from the number of elements."""
    sizes = shape.ints
    require(sizes.count(-1) < 2, "a shape may hold -1 once")
    require(all(s >= -1 for s in sizes), f"shape {sizes} holds a negative size")
    if None in input.dims:
        return tuple(None if s == -1 else s for s in sizes)
    elements = prod(s or 0 for s in input.dims)
    rest = prod(s for s in sizes if s != -1)
    if -1 in sizes:
        require(rest > 0 and elements % rest == 0, f"{elements} elements do not fit {sizes}")
        return tuple(elements // rest if s == -1 else s for s in sizes)
    require(rest == elements, f"{elements} elements do not fit {sizes}")
    return sizes


def transpose(input: Tensor, perm: Tensor | None = None) -> Dims:
    """Dimension i is the input's perm[i]; a matrix is transposed if `perm` is left out."""
    require(perm is not None or input.rank == 2, f"a tensor of rank {input.rank} takes a perm")
    order = tuple(reversed(range(input.rank))) if perm is None else perm.ints
    require(sorted(order) == list(range(input.rank)), f"{order} does not permute the dimensions")
    return tuple(input.dims[i] for i in order)


def squeeze(input: Tensor, axes: Tensor | None = None) -> Dims:
    """The input's dimensions without axes of size 1: all of them, or those in `axes`."""
    if axes is None or axes.known == (0,):
        kept = [input.size(i) for i in range(input.rank)]
        return tuple(size for size in kept if size != 1) or (1,)
    removed = axes_of(axes.ints, input.rank)
    for i in removed:
        unify(input.dims[i], 1)
    return tuple(size for i, size in enumerate(input.dims) if i not in removed) or (1,)


def expand_dims(input: Tensor, axis: int) -> Dims:
    """The input's dimensions with a size of 1 inserted at `axis`."""
    at = axis_of(axis, input.rank + 1)
    return (*input.dims[:at], 1, *input.dims[at:])


def concatenation(inputs: tuple[Tensor, ...], axis: int) -> Dims:
    """Sizes along `axis` are summed, all others must be equal."""
    first = inputs[0]
    at = axis_of(axis, first.rank)
    require(all(t.rank == first.rank for t in inputs), "ranks of concatenated tensors differ")
    dims = list(first.dims)
    for other in inputs[1:]:
        dims = [
            unify(a, b) if i != at else a
            for i, (a, b) in enumerate(zip(dims, other.dims, strict=True))
        ]
    along = [t.dims[at] for t in inputs]
    dims[at] = None if None in along else sum(s or 0 for s in along)
    return tuple(dims)


def pad(input: Tensor, paddings: Tensor) -> Dims:
    """Sizes plus `paddings` [rank, 2]: before and after each dimension."""
    sizes = paddings.ints
    require(len(sizes) == 2 * input.rank, f"{len(sizes)} paddings for rank {input.rank}")
    require(all(s >= 0 for s in sizes), "a padding is negative")
    return tuple(
        None if size is None else before + size + after
        for size, before, after in zip(input.dims, sizes[::2], sizes[1::2], strict=True)
    )


def tile(input: Tensor, multiples: Tensor) -> Dims:
    """Sizes multiplied by `multiples`."""
    times = multiples.ints
    require(len(times) == input.rank, f"{len(times)} multiples for rank {input.rank}")
    require(all(n > 0 for n in times), "a multiple is not positive")
    return tuple(
        None if size is None else size * n for size, n in zip(input.dims, times, strict=True)
    )


def pack(inputs: tuple[Tensor, ...], axis: int) -> Dims:
    """The inputs' common dimensions with the number of inputs inserted at `axis`."""
    rank = inputs[0].rank
    require(all(t.rank == rank for t in inputs), "ranks of packed tensors differ")
    require(0 <= axis <= rank, f"axis {axis} is outside a tensor of rank {rank + 1}")
    common = [reduce(unify, sizes) for sizes in zip(*(t.dims for t in inputs), strict=True)]
    return (*common[:axis], len(inputs), *common[axis:])


def split(input: Tensor, axis: int, num_splits: int) -> list[Dims | None]:
    """`num_splits` equal parts along `axis`."""
    at, size = axis_of(axis, input.rank), input.dims[axis_of(axis, input.rank)]
    require(num_splits > 0, f"num_splits is {num_splits}; it must be positive")
    if size is not None:
        require(size % num_splits == 0, f"a size of {size} has no {num_splits} equal parts")
        size //= num_splits
    return [(*input.dims[:at], size, *input.dims[at + 1 :])] * num_splits


def reverse(input: Tensor, axis: Tensor) -> Dims:
    """The input's dimensions."""
    (at,) = axis.ints
    require(0 <= at < input.rank, f"axis {at} is outside a tensor of rank {input.rank}")
    return input.dims


def fill(dims: Tensor) -> Dims:
    """The sizes in `dims`."""
    require(all(d >= 0 for d in dims.ints), f"dimensions {dims.ints} hold a negative size")
    return dims.ints


def rank(input: Tensor) -> Dims:
    """Shape of a scalar."""
    return ()


def slice_(input: Tensor, begin: Tensor, size: Tensor) -> Dims:
    """The given sizes; -1 extends to the end of the axis."""
    starts, sizes = begin.ints, size.ints
    require(
        len(starts) == len(sizes) == input.rank,
        f"begin and size have {len(starts)} and {len(sizes)} numbers for rank {input.rank}",
    )
    return tuple(map(_sliced, input.dims, starts, sizes))


def _sliced(whole: Dim, start: int, size: int) -> Dim:
    require(start >= 0, f"a slice begins at {start}; it must begin at 0 or later")
    if whole is None:
        return None if size == -1 else size
    found = whole - start if size == -1 else size
    require(
        found >= 0 and start + found <= whole,
        f"a slice of {found} from {start} ends beyond a size of {whole}",
    )
    return found


def spans(
    sizes: Iterable[int],
    bounds: tuple[Iterable[int], Iterable[int], Iterable[int]],
    begin_mask: int,
    end_mask: int,
) -> list[Span]:
    """The indexes that STRIDED_SLICE selects along each axis; `bounds`: begin, end, strides.

    A set mask bit means no bound for that axis. Negative bounds count from the end, and bounds
    are clamped, as in Python slices.
    """
    found = []
    for i, (size, begin, end, stride) in enumerate(zip(sizes, *bounds, strict=True)):
        require(stride != 0, "a stride is zero")
        first = None if begin_mask >> i & 1 else begin
        last = None if end_mask >> i & 1 else end
        found.append(Span.of_slice(first, last, stride, size))
    return found


def strided_slice(
    input: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    begin_mask: int,
    end_mask: int,
    shrink_axis_mask: int,
) -> Dims:
    """Number of selected indexes per axis; bits of `shrink_axis_mask` remove axes of size 1."""
    bounds = (begin.ints, end.ints, strides.ints)
    sizes = [input.size(i) for i in range(input.rank)]
    require(
        all(len(b) == input.rank for b in bounds),
        f"begin, end and strides must have {input.rank} numbers each",
    )
    kept = []
    for i, taken in enumerate(spans(sizes, bounds, begin_mask, end_mask)):
        if shrink_axis_mask >> i & 1:
            require(taken.size == 1 and taken.step > 0, f"dimension {i} cannot be removed")
        else:
            kept.append(taken.size)
    return tuple(kept) or (1,)


def gather(input: Tensor, axis: int, indices: Tensor) -> Dims:
    """Dimensions of `indices` in place of `axis`."""
    at = axis_of(axis, input.rank)
    return (*input.dims[:at], *indices.dims, *input.dims[at + 1 :])


def topk_v2(input: Tensor, k: int) -> list[Dims | None]:
    """Values and indexes of the `k` largest in each row."""
    last = input.dims[-1]
    require(k > 0 and (last is None or k <= last), f"k is {k}; it must be 1 to {last}")
    return [(*input.dims[:-1], k)] * 2


def embedding_lookup(lookups: Tensor, values: Tensor) -> Dims:
    """One row of `values` for each of `lookups`."""
    require(values.rank >= 2, f"a table of values has at least 2 dimensions, not {values.rank}")
    return (vector(lookups), *values.dims[1:])


SHAPES = {
    **by_name(reshape, transpose, squeeze, expand_dims, concatenation, tile, pack, split, reverse),
    **by_name(embedding_lookup, fill, rank, slice_, strided_slice, gather, topk_v2),
    **dict.fromkeys((spec.PAD, spec.PAD_V2, spec.MIRROR_PAD), pad),
}
