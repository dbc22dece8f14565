"""Parts of tensors and blocks of images, against numpy."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.cases import each
from tests.nnapi.host.oracle import DATA, F32, I32, integers, matches, run, store

SEED = 20260807
NUMBERS = (*DATA, I32)


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).integers(-100, 100, shape).astype(np.float64)


SLICED = {"begin": integers(1, 0, 2), "size": integers(2, 0, -1)}
STRIDED = [  # begin, end, strides, masks, which part it is
    ((1, 0), (3, 4), (1, 2), (0, 0, 0), np.s_[1:3, 0:4:2]),
    ((3, -1), (0, -9), (-1, -2), (0, 0, 0), np.s_[3:0:-1, ::-2]),
    ((9, 1), (0, 2), (1, 1), (0b01, 0b11, 0), np.s_[:, 1:]),
    ((0, 0), (0, 0), (-1, -1), (0b11, 0b11, 0), np.s_[::-1, ::-1]),
    ((2, 1), (3, 4), (1, 1), (0, 0, 0b01), np.s_[2, 1:4]),
    ((2, -1), (3, 5), (1, 1), (0, 0, 0b11), np.s_[2:3, 4]),
    ((3, 0), (1, 5), (1, 1), (0, 0, 0), np.s_[3:1, 0:5]),
]


def strided(begin, end, strides, masks):
    lists = dict(zip(("begin", "end", "strides"), (begin, end, strides), strict=True))
    names = ("begin_mask", "end_mask", "shrink_axis_mask")
    return {n: integers(*v) for n, v in lists.items()} | dict(zip(names, masks, strict=True))


PARTS = [
    (spec.SLICE, NUMBERS, (4, 3, 5), SLICED, lambda x: x[1:3, 0:0, 2:]),
    *(
        (spec.STRIDED_SLICE, DATA, (4, 5), strided(*lists), lambda x, at=at: x[at])
        for *lists, at in STRIDED
    ),
    *(
        (
            spec.GATHER,
            NUMBERS,
            (3, 4, 3),
            {"axis": axis, "indices": store(np.array(indices), I32)},
            lambda x, indices=indices, axis=axis: np.take(x, indices, axis),
        )
        for indices in ((1,), (2, 0, 2), ((1, 0), (1, 1)))
        for axis in (0, 1, -1)
    ),
]


@each(("row", "types", "shape", "operands", "part"), PARTS)
def test_parts_match(row, types, shape, operands, part):
    x = drawn(*shape)
    matches(row, lambda x, *_: part(x), types=types, same_scale=True, input=x, **operands)


OUTSIDE = "an index is outside a dimension of "
REFUSED = [
    *(
        (spec.SLICE, {"begin": integers(begin), "size": integers(size)}, "OP_FAILED")
        for begin, size in ((3, 2), (0, 5), (-1, 2), (5, -1))
    ),
    (spec.STRIDED_SLICE, strided((2,), (4,), (0,), (0, 0, 0)), "OP_FAILED"),
    (spec.STRIDED_SLICE, strided((2,), (0,), (-1,), (0, 0, 1)), "OP_FAILED"),  # backward
    (spec.STRIDED_SLICE, strided((2,), (4,), (1,), (0, 0, 1)), "OP_FAILED"),  # two removed
    (spec.GATHER, {"axis": 0, "indices": integers(0, -1)}, f"{OUTSIDE}4"),
    (spec.GATHER, {"axis": 0, "indices": integers(0, 4)}, f"{OUTSIDE}4"),
]


@each(("row", "operands", "message"), REFUSED)
def test_what_is_not_there_is_refused(row, operands, message):
    with pytest.raises(RuntimeFailure, match=message):
        run(row, {"input": store(drawn(4), F32), **operands}, Operand(F32))


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
