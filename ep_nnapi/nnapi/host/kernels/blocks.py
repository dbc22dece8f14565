"""Kernels that move blocks of pixels to or from channels or batches."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.windows import NHWC
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

_INTERLEAVED = (0, 1, 3, 2, 4, 5)
"""Permutation of [N, H, W, Bh, Bw, C] to [N, H, Bh, W, Bw, C]; it is its own inverse."""


def _image(tensor: Array, nchw: bool) -> Array:
    """Returns a view of the tensor as [N, H, W, C]."""
    return tensor.transpose(NHWC) if nchw else tensor


def depth_to_space(input: Array, block_size: int, layout: bool = False, *, out: Array) -> None:
    """Moves channels into blocks of pixels. Source: NDK ANEURALNETWORKS_DEPTH_TO_SPACE."""
    deep, wide = _image(input, layout), _image(out, layout)
    n, h, w, _ = deep.shape
    target = wide.reshape(n, h, block_size, w, block_size, wide.shape[3]).transpose(_INTERLEAVED)
    np.copyto(target, deep.reshape(target.shape))


def space_to_depth(input: Array, block_size: int, layout: bool = False, *, out: Array) -> None:
    """Moves blocks of pixels into channels. Source: NDK ANEURALNETWORKS_SPACE_TO_DEPTH."""
    wide, deep = _image(input, layout), _image(out, layout)
    n, h, w, _ = deep.shape
    source = wide.reshape(n, h, block_size, w, block_size, wide.shape[3]).transpose(_INTERLEAVED)
    np.copyto(deep.reshape(source.shape), source)


def batch_to_space_nd(
    input: Array, block_sizes: Array, layout: bool = False, *, out: Array
) -> None:
    """Moves batches into blocks of pixels. Source: NDK ANEURALNETWORKS_BATCH_TO_SPACE_ND."""
    _rearrange(_image(out, layout), _image(input, layout), block_sizes, to_batches=False)


def space_to_batch_nd(
    input: Array,
    block_sizes: Array,
    paddings: Array,
    layout: bool = False,
    *,
    types: Types,
    out: Array,
) -> None:
    """Moves blocks of pixels, zero-padded, into batches.

    Source: NDK ANEURALNETWORKS_SPACE_TO_BATCH_ND.
    """
    image = _image(input, layout)
    around = ((0, 0), *paddings.reshape(2, 2).tolist(), (0, 0))
    padded = np.pad(image, around, constant_values=types["input"].zero_point)
    _rearrange(padded, _image(out, layout), block_sizes, to_batches=True)


def _rearrange(space: Array, batches: Array, block_sizes: Array, *, to_batches: bool) -> None:
    """Copies between [N, Bh * H, Bw * W, C] and [Bh * Bw * N, H, W, C]."""
    high, wide = block_sizes.tolist()
    height, width, channels = batches.shape[1:]
    n = space.shape[0]
    blocks = space.reshape(n, height, high, width, wide, channels).transpose(2, 4, 0, 1, 3, 5)
    split = batches.reshape(high, wide, n, height, width, channels)
    np.copyto(*((split, blocks) if to_batches else (blocks, split)))


def channel_shuffle(input: Array, num_groups: int, axis: int, *, out: Array) -> None:
    """Interleaves the channels of all groups. Source: NDK ANEURALNETWORKS_CHANNEL_SHUFFLE."""
    at = axis % input.ndim
    before, size, after = input.shape[:at], input.shape[at], input.shape[at + 1 :]
    grouped = input.reshape(*before, num_groups, size // num_groups, *after)
    np.copyto(
        out.reshape(*before, size // num_groups, num_groups, *after),
        grouped.swapaxes(at, at + 1),
    )


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    stored(spec.DEPTH_TO_SPACE, depth_to_space, *_DATA),
    stored(spec.SPACE_TO_DEPTH, space_to_depth, *_DATA),
    stored(spec.BATCH_TO_SPACE_ND, batch_to_space_nd, *_DATA),
    stored(spec.SPACE_TO_BATCH_ND, space_to_batch_nd, *_DATA),
    stored(spec.CHANNEL_SHUFFLE, channel_shuffle, *_DATA),
)
