"""Parts of tensors and blocks of images, against numpy."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.oracle import DATA, F32, I32, integers, matches, run, store

SEED = 20260807
NUMBERS = (*DATA, I32)


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).integers(-100, 100, shape).astype(np.float64)


def test_slice_matches():
    matches(
        spec.SLICE,
        lambda x, *_: x[1:3, 0:0, 2:],
        types=NUMBERS,
        same_scale=True,
        input=drawn(4, 3, 5),
        begin=integers(1, 0, 2),
        size=integers(2, 0, -1),
    )


@pytest.mark.parametrize(("begin", "size"), [(3, 2), (0, 5), (-1, 2), (5, -1)], ids=str)
def test_slice_refuses_what_is_not_there(begin, size):
    given = {"input": store(drawn(4), F32), "begin": integers(begin), "size": integers(size)}
    with pytest.raises(RuntimeFailure, match="OP_FAILED"):
        run(spec.SLICE, given, Operand(F32))


STRIDED = {
    "forward": ((1, 0), (3, 4), (1, 2), 0, 0, 0, np.s_[1:3, 0:4:2]),
    "backward": ((3, -1), (0, -9), (-1, -2), 0, 0, 0, np.s_[3:0:-1, ::-2]),
    "open": ((9, 1), (0, 2), (1, 1), 0b01, 0b11, 0, np.s_[:, 1:]),
    "open backward": ((0, 0), (0, 0), (-1, -1), 0b11, 0b11, 0, np.s_[::-1, ::-1]),
    "one element removed": ((2, 1), (3, 4), (1, 1), 0, 0, 0b01, np.s_[2, 1:4]),
    "all removed": ((2, -1), (3, 5), (1, 1), 0, 0, 0b11, np.s_[2:3, 4]),
    "nothing": ((3, 0), (1, 5), (1, 1), 0, 0, 0, np.s_[3:1, 0:5]),
}


@pytest.mark.parametrize(
    ("begin", "end", "strides", "begin_mask", "end_mask", "shrink", "at"),
    STRIDED.values(),
    ids=STRIDED,
)
def test_strided_slice_matches(begin, end, strides, begin_mask, end_mask, shrink, at):
    matches(
        spec.STRIDED_SLICE,
        lambda x, *_: x[at],
        same_scale=True,
        input=drawn(4, 5),
        begin=integers(*begin),
        end=integers(*end),
        strides=integers(*strides),
        begin_mask=begin_mask,
        end_mask=end_mask,
        shrink_axis_mask=shrink,
    )


@pytest.mark.parametrize(
    ("stride", "shrink"), [(0, 0), (-1, 1), (1, 1)], ids=["zero", "backward", "two removed"]
)
def test_strided_slice_refuses(stride, shrink):
    given = {
        "input": store(drawn(4), F32),
        "begin": integers(2),
        "end": integers(0 if stride < 0 else 4),
        "strides": integers(stride),
        "begin_mask": 0,
        "end_mask": 0,
        "shrink_axis_mask": shrink,
    }
    with pytest.raises(RuntimeFailure, match="OP_FAILED"):
        run(spec.STRIDED_SLICE, given, Operand(F32))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [(1,), (2, 0, 2), ((1, 0), (1, 1))], ids=str)
def test_gather_matches(axis, indices):
    matches(
        spec.GATHER,
        lambda x, _: np.take(x, indices, axis),
        types=NUMBERS,
        same_scale=True,
        input=drawn(3, 4, 3),
        axis=axis,
        indices=store(np.array(indices), I32),
    )


@pytest.mark.parametrize("index", [-1, 3])
def test_gather_refuses_an_index_outside(index):
    given = {"input": store(drawn(3), F32), "axis": 0, "indices": integers(0, index)}
    with pytest.raises(RuntimeFailure, match="an index is outside a dimension of 3"):
        run(spec.GATHER, given, Operand(F32))


@pytest.mark.parametrize("code", NUMBERS, ids=lambda c: c.name)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_topk_puts_the_last_of_equals_first(code, k):
    source = store(np.array([[3.0, 1, 3, 2, 1], [0, 0, 0, 0, 0]]), code)
    outputs = (replace(source.operand, dimensions=()), Operand(I32))
    values, indices = run(spec.TOPK_V2, {"input": source, "k": k}, *outputs)
    np.testing.assert_array_equal(indices, np.array([[2, 0, 3, 4, 1], [4, 3, 2, 1, 0]])[:, :k])
    np.testing.assert_array_equal(values, np.take_along_axis(source.array, indices, 1))


def as_nhwc(formula, nchw):
    """The formula on NHWC images for operands in either layout."""
    if not nchw:
        return formula
    return lambda x, *rest: formula(x.transpose(0, 2, 3, 1), *rest).transpose(0, 3, 1, 2)


def image(nchw, *shape):
    n, h, w, c = shape
    return drawn(n, c, h, w) if nchw else drawn(*shape)


LAYOUTS = pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])


def deepened(x, block):
    n, h, w, _ = x.shape
    rows = [x[:, i::block, j::block] for i in range(block) for j in range(block)]
    return np.concatenate(rows, axis=3).reshape(n, h // block, w // block, -1)


@LAYOUTS
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_and_space_are_exchanged(nchw, block):
    wide = image(nchw, 2, 2 * block, 3 * block, 4)
    matches(
        spec.SPACE_TO_DEPTH,
        as_nhwc(lambda x: deepened(x, block), nchw),
        same_scale=True,
        input=wide,
        block_size=block,
        layout=nchw,
    )
    deep = as_nhwc(lambda x: deepened(x, block), nchw)(wide)
    matches(
        spec.DEPTH_TO_SPACE,
        lambda x: as_nhwc(spread, nchw)(x, block),
        same_scale=True,
        input=deep,
        block_size=block,
        layout=nchw,
    )


def spread(x, block):
    n, h, w, c = x.shape
    out = np.zeros((n, h * block, w * block, c // block**2))
    for i in range(block):
        for j in range(block):
            first = (i * block + j) * out.shape[3]
            out[:, i::block, j::block] = x[..., first : first + out.shape[3]]
    return out


@LAYOUTS
def test_batch_and_space_are_exchanged(nchw):
    def batched(x, *_):
        padded = np.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)))
        return np.concatenate([padded[:, i::2, j::3] for i in range(2) for j in range(3)])

    def unbatched(x, *_):
        out = np.zeros((x.shape[0] // 6, 2 * x.shape[1], 3 * x.shape[2], x.shape[3]))
        for k in range(6):
            out[:, k // 3 :: 2, k % 3 :: 3] = x[k * len(out) : (k + 1) * len(out)]
        return out

    common = {"block_sizes": integers(2, 3), "layout": nchw, "same_scale": True}
    matches(
        spec.SPACE_TO_BATCH_ND,
        as_nhwc(batched, nchw),
        input=image(nchw, 2, 5, 4, 3),
        paddings=store(np.array([[1, 0], [0, 2]]), I32),
        **common,
    )
    matches(
        spec.BATCH_TO_SPACE_ND, as_nhwc(unbatched, nchw), input=image(nchw, 12, 2, 1, 3), **common
    )


@pytest.mark.parametrize("axis", [0, -1])
def test_channel_shuffle_matches(axis):
    def shuffled(x):
        along = np.moveaxis(x, axis, 0)
        mixed = [along[g * 2 + k] for k in range(2) for g in range(3)]
        return np.moveaxis(np.stack(mixed), 0, axis)

    matches(
        spec.CHANNEL_SHUFFLE,
        shuffled,
        same_scale=True,
        input=drawn(6, 5, 6),
        num_groups=3,
        axis=axis,
    )
