"""Shape inference for slicing, gather and top-k."""

from __future__ import annotations

from collections.abc import Iterable

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Table, Tensor, axis_of, require


def slice_(input: Tensor, begin: Tensor, size: Tensor) -> Dims:
    """The given sizes; -1 extends to the end of the axis. Source: NDK ANEURALNETWORKS_SLICE."""
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


def ranges(
    sizes: Iterable[int],
    bounds: tuple[Iterable[int], Iterable[int], Iterable[int]],
    begin_mask: int,
    end_mask: int,
) -> list[range]:
    """The indexes that STRIDED_SLICE selects along each axis; `bounds`: begin, end, strides.

    A set mask bit means no bound for that axis. Negative bounds count from the end, and bounds
    are clamped, as in Python slices.
    """
    found = []
    for i, (size, begin, end, stride) in enumerate(zip(sizes, *bounds, strict=True)):
        require(stride != 0, "a stride is zero")
        first = None if begin_mask >> i & 1 else begin
        last = None if end_mask >> i & 1 else end
        found.append(range(*slice(first, last, stride).indices(size)))
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
    """Number of selected indexes per axis; bits of `shrink_axis_mask` remove axes of size 1.

    Source: NDK ANEURALNETWORKS_STRIDED_SLICE.
    """
    bounds = (begin.ints, end.ints, strides.ints)
    sizes = [input.size(i) for i in range(input.rank)]
    require(
        all(len(b) == input.rank for b in bounds),
        f"begin, end and strides must have {input.rank} numbers each",
    )
    kept = []
    for i, taken in enumerate(ranges(sizes, bounds, begin_mask, end_mask)):
        if shrink_axis_mask >> i & 1:
            require(len(taken) == 1 and taken.step > 0, f"dimension {i} cannot be removed")
        else:
            kept.append(len(taken))
    return tuple(kept) or (1,)


def gather(input: Tensor, axis: int, indices: Tensor) -> Dims:
    """Dimensions of `indices` in place of `axis`. Source: NDK ANEURALNETWORKS_GATHER."""
    at = axis_of(axis, input.rank)
    return (*input.dims[:at], *indices.dims, *input.dims[at + 1 :])


def topk_v2(input: Tensor, k: int) -> list[Dims | None]:
    """Values and indexes of the `k` largest in each row. Source: NDK ANEURALNETWORKS_TOPK_V2."""
    last = input.dims[-1]
    require(k > 0 and (last is None or k <= last), f"k is {k}; it must be 1 to {last}")
    return [(*input.dims[:-1], k)] * 2


SHAPES: Table = {
    spec.SLICE: slice_,
    spec.STRIDED_SLICE: strided_slice,
    spec.GATHER: gather,
    spec.TOPK_V2: topk_v2,
}
