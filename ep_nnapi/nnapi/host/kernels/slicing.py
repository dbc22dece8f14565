"""Slicing kernels, gather and top-k."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import stored
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.shapes.slicing import ranges
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S


def slice_(input: Array, begin: Array, size: Array, *, out: Array) -> None:
    """Copies a block of the input. Source: NDK ANEURALNETWORKS_SLICE."""
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
    """Copies a block of the input with strides. Source: NDK ANEURALNETWORKS_STRIDED_SLICE."""
    bounds = (begin.tolist(), end.tolist(), strides.tolist())
    taken = ranges(input.shape, bounds, begin_mask, end_mask)
    part = input[tuple(slice(r.start, None if r.stop < 0 else r.stop, r.step) for r in taken)]
    np.copyto(out, part.reshape(out.shape))


def gather(input: Array, axis: int, indices: Array, *, out: Array) -> None:
    """Gathers slices along `axis` by index. Source: NDK ANEURALNETWORKS_GATHER."""
    size = input.shape[axis]
    inside = indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < size)
    require(inside, f"an index is outside a dimension of {size}")
    np.take(input, indices, axis, out=out, mode="clip")


def topk_v2(input: Array, k: int, *, out: tuple[Array, Array]) -> None:
    """Stores the k greatest elements, descending, and their indices; the last of equal ones first.

    Source: NDK ANEURALNETWORKS_TOPK_V2.
    """
    values, indices = out
    order = np.argsort(input, axis=-1, kind="stable")[..., ::-1][..., :k]
    np.copyto(indices, order, casting="same_kind")
    np.copyto(values, np.take_along_axis(input, order, axis=-1))


_NUMBERS = (F32, F16, I32, Q8, Q8S)
KERNELS = (
    stored(spec.SLICE, slice_, *_NUMBERS),
    stored(spec.STRIDED_SLICE, strided_slice, F32, F16, Q8, Q8S),
    stored(spec.GATHER, gather, *_NUMBERS),
    stored(spec.TOPK_V2, topk_v2, *_NUMBERS),
)
