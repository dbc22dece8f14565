"""Shapes of operations: what is known, what is not yet, and what cannot be."""

import re

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import (
    Pending,
    ShapeError,
    Tensor,
    UnknownOperand,
    axes_of,
    axis_of,
    unify,
)
from ep_nnapi.nnapi.spec import RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
from tests.nnapi.shapes.operands import ints, one, t


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (1, 5), (2, 5)),
        ((None, 3), (2, 1), (2, 3)),
        ((None, 3), (1, 3), (None, 3)),
        ((None,), (None,), (None,)),
        ((0, 3), (1, 3), (0, 3)),
        ((), (4,), (4,)),
    ],
    ids=str,
)
def test_broadcasting(first, second, expected):
    assert one(spec.ADD, input1=t(*first), input2=t(*second), activation=0) == expected


@pytest.mark.parametrize("sizes", [(2, 3), (0, 2)], ids=str)
def test_sizes_that_do_not_broadcast(sizes):
    with pytest.raises(ShapeError, match="do not broadcast"):
        one(spec.ADD, input1=t(sizes[0]), input2=t(sizes[1]), activation=0)


# Shape inference: what is known, what is not yet, and what cannot be


def test_what_is_not_asked_for_may_be_unknown():
    assert one(spec.RELU, input=t(2, None)) == (2, None)
    assert one(spec.RELU, input=Tensor(None)) is None
    assert one(spec.SOFTMAX, input=t(2, 3), beta=Pending.PENDING, axis=0) == (2, 3)
    assert one(spec.SOFTMAX, input=t(2, 3), beta=1.0, axis=Pending.PENDING) is None
    assert one(spec.RESHAPE, input=t(2, 3), shape=Tensor((1,))) is None


def test_several_outputs_are_unknown_together():
    unknown = infer(spec.SPLIT, {"input": t(4), "axis": 0, "num_splits": Pending.PENDING}, 2)
    assert unknown == (None, None)


# Shapes of look-ups, projections and draws: what follows from what is known


EMBEDDING = {"lookups": t(5), "values": t(9, 2, 3)}
HASHTABLE = {"lookups": t(5), "keys": t(9), "values": t(9, 2)}
PROJECTION = {"hash": t(4, 7), "input": t(3, 2), "weight": t(3), "type": 2}
DRAWS = {"input": t(2, 5), "sample_count": 7, "seeds": t(2)}
CASES = [
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {}, ((5, 2, 3),)),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"lookups": t(None)}, ((None, 2, 3),)),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"values": Tensor(None)}, (None,)),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {}, ((5, 2), (5,))),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"keys": t(None)}, ((5, 2), (5,))),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"values": t(9)}, ((5,), (5,))),
    (spec.LSH_PROJECTION, PROJECTION, {}, ((28,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(4, 32), "type": 3, "weight": None}, ((4,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(None, 7), "type": 1}, ((None,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(4, None)}, ((None,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"weight": Tensor(None)}, ((28,),)),
    (spec.LSH_PROJECTION, PROJECTION, {"type": Pending.PENDING}, (None,)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {}, ((2, 7),)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"input": t(None, 5), "sample_count": 0}, ((None, 0),)),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"seeds": Tensor(None)}, ((2, 7),)),
]


@pytest.mark.parametrize(("row", "operands", "change", "expected"), CASES)
def test_lookup_shapes(row, operands, change, expected):
    assert infer(row, operands | change, len(expected)) == expected


REFUSALS = [
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"values": t(9)}, "at least 2 dimensions, not 1"),
    (spec.EMBEDDING_LOOKUP, EMBEDDING, {"lookups": t(5, 1)}, "a list has 1 dimension, not 2"),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"values": t(8)}, "sizes 9 and 8 must be equal"),
    (spec.HASHTABLE_LOOKUP, HASHTABLE, {"keys": t(8)}, "sizes 8 and 9 must be equal"),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(28)}, "hash functions have 2 dimensions, not 1"),
    (spec.LSH_PROJECTION, PROJECTION, {"hash": t(1, 33)}, "hash has functions of 33 bits"),
    (spec.LSH_PROJECTION, PROJECTION, {"weight": t(2)}, "sizes 2 and 3 must be equal"),
    (spec.LSH_PROJECTION, PROJECTION, {"type": 0}, "projection type 0 is none of 1 to 3"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"input": t(5)}, "log-probabilities have 2 dimensions"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"sample_count": -1}, "sample_count is -1"),
    (spec.RANDOM_MULTINOMIAL, DRAWS, {"seeds": t(3)}, "sizes 3 and 2 must be equal"),
]


@pytest.mark.parametrize(("row", "operands", "change", "sentence"), REFUSALS)
def test_refusals(row, operands, change, sentence):
    with pytest.raises(ShapeError, match=re.escape(sentence)):
        infer(row, operands | change, 2)


# Shapes of matrix products


@pytest.mark.parametrize(
    ("dims", "expected"),
    [((4, 6), (4, 5)), ((2, 2, 6), (4, 5)), ((None, 6), (None, 5)), ((None, 2, 3), (None, 5))],
    ids=str,
)
def test_fully_connected_rows(dims, expected):
    weights = {"weights": t(5, 6), "bias": t(5), "activation": 0}
    assert one(spec.FULLY_CONNECTED, input=t(*dims), **weights) == expected


def test_fully_connected_rows_that_do_not_fill():
    with pytest.raises(ShapeError, match="14 elements do not fill rows of 6"):
        one(spec.FULLY_CONNECTED, input=t(2, 7), weights=t(5, 6), bias=t(5), activation=0)


# Operands of shape inference: what is unknown raises UnknownOperand when it is read


def test_a_known_array_has_every_property():
    x = Tensor.of(np.array([[1, 2], [3, 4]]))
    assert (x.dims, x.rank, x.ints, x.size(1)) == ((2, 2), 2, (1, 2, 3, 4), 2)


@pytest.mark.parametrize(
    ("tensor", "read"),
    [
        (Tensor(None), lambda x: x.dims),
        (Tensor(None), lambda x: x.rank),
        (Tensor((2,)), lambda x: x.value),
        (Tensor((2,)), lambda x: x.ints),
        (Tensor((2, None)), lambda x: x.size(1)),
    ],
)
def test_unknown_properties_raise(tensor: Tensor, read):
    with pytest.raises(UnknownOperand):
        read(tensor)


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_axes_at_the_limit(axis: int, expected: int):
    assert axis_of(axis, 3) == expected


@pytest.mark.parametrize("axis", [3, -4])
def test_axes_just_past_it(axis: int):
    with pytest.raises(ShapeError, match=f"axis {axis} is outside a tensor of rank 3"):
        axis_of(axis, 3)


def test_axes_are_sorted_without_duplicates():
    assert axes_of((2, -3, -1), 3) == (0, 2)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(2, 2, 2), (None, 2, 2), (2, None, 2), (None, None, None)]
)
def test_sizes_agree(a: int | None, b: int | None, expected: int | None):
    assert unify(a, b) == expected


def test_sizes_that_differ():
    with pytest.raises(ShapeError, match="sizes 2 and 3 must be equal"):
        unify(2, 3)


# Shapes of reductions along axes


@pytest.mark.parametrize(
    ("keep", "expected"), [(1, (2, 1)), (100, (2, 1)), (0, (2,)), (-100, (2,))], ids=str
)
def test_a_mean_keeps_dimensions_if_told_a_positive_number(keep, expected):
    assert one(spec.MEAN, input=t(2, 3), axes=ints(1), keep_dims=keep) == expected


# Shapes of resizes: by size, and by factor in either layout

ROWS = [RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_sizes_are_width_before_height(row):
    found = one(row, input=t(2, 5, 6, 3), output_width=8, output_height=9, layout=False)
    assert found == (2, 9, 8, 3)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_factors_are_rounded_down(row):
    factors = {"width_scale": 1.5, "height_scale": 0.5, "layout": True}
    assert one(row, input=t(2, 3, 5, 5), **factors) == (2, 3, 2, 7)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_coordinate_options_exclude_each_other(row):
    both = {"align_corners": True, "half_pixel_centers": True, "layout": False}
    with pytest.raises(ShapeError, match="half_pixel_centers and align_corners"):
        one(row, input=t(1, 2, 2, 1), output_width=2, output_height=2, **both)


def test_an_empty_result_cannot_be():
    with pytest.raises(ShapeError, match="the output has size"):
        one(RESIZE_BILINEAR, input=t(1, 2, 2, 1), output_width=0, output_height=2)


# Operations with little to compute, at the limit and past it


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.SPACE_TO_DEPTH, {"input": t(1, 4, None, 3), "block_size": 2}, (1, 2, None, 12)),
        (spec.BATCH_MATMUL, {"input1": t(2, 3, None), "input2": t(2, 4, 5)}, (2, 3, 5)),
        (spec.RESHAPE, {"input": t(None, 6), "shape": ints(-1, 2)}, (None, 2)),
        (spec.RESHAPE, {"input": t(2, 6), "shape": ints(-1, 2)}, (6, 2)),
        (spec.CONCATENATION, {"inputs": (t(2, None), t(2, 3)), "axis": 0}, (4, 3)),
        (spec.CONCATENATION, {"inputs": (t(None, 3), t(2, 3)), "axis": -2}, (None, 3)),
        (spec.PAD, {"input": t(2, None), "paddings": ints(1, 2, 0, 3)}, (5, None)),
        (spec.TRANSPOSE, {"input": t(2, None)}, (None, 2)),
        (spec.SQUEEZE, {"input": t(1, None), "axes": ints(0)}, (None,)),
        (spec.SQUEEZE, {"input": t(1, None)}, None),
        (spec.FILL, {"dims": ints(2, 0), "value": 1.0}, (2, 0)),
        (spec.RANK, {"input": t(2, 3)}, ()),
        (spec.PACK, {"axis": 1, "inputs": (t(2, 3), t(None, 3))}, (2, 2, 3)),
        (spec.TILE, {"input": t(2, None), "multiples": ints(3, 2)}, (6, None)),
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(2, 0), "keep_dims": 0}, (None,)),
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(-1), "keep_dims": 1}, (2, None, 1)),
        (spec.REDUCE_SUM, {"input": t(2, 3), "axes": ints(0, 1), "keep_dims": False}, (1,)),
        (spec.ARGMAX, {"input": t(5), "axis": 0}, (1,)),
        (spec.GATHER, {"input": t(2, 3), "axis": 1, "indices": t(4, None)}, (2, 4, None)),
        (spec.SLICE, {"input": t(None, 5), "begin": ints(1, 2), "size": ints(2, -1)}, (2, 3)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.DEPTH_TO_SPACE, {"input": t(1, 2, 2, 6), "block_size": 2}, "depth 6"),
        (spec.BATCH_MATMUL, {"input1": t(2, 3), "input2": t(2, 3)}, "sizes 3 and 2"),
        (spec.TRANSPOSE, {"input": t(2, 3), "perm": ints(0, 0)}, "does not permute"),
        (spec.TRANSPOSE, {"input": t(2, 3, 4)}, "rank 3 takes a perm"),
        (spec.SQUEEZE, {"input": t(2, 3), "axes": ints(0)}, "sizes 2 and 1"),
        (spec.EXPAND_DIMS, {"input": t(2, 3), "axis": 3}, "axis 3 is outside"),
        (spec.CONCATENATION, {"inputs": (t(2, 3), t(2, 4)), "axis": 0}, "sizes 3 and 4"),
        (spec.CONCATENATION, {"inputs": (t(2), t(2, 4)), "axis": 0}, "ranks"),
        (spec.PAD, {"input": t(2), "paddings": ints(-1, 0)}, "negative"),
        (spec.SPLIT, {"input": t(5), "axis": 0, "num_splits": 2}, "no 2 equal parts"),
        (spec.FILL, {"dims": ints(-1), "value": 1.0}, "negative"),
        (spec.REVERSE, {"input": t(3), "axis": ints(1)}, "axis 1 is outside"),
        (spec.PACK, {"axis": 2, "inputs": (t(2),)}, "axis 2 is outside"),
        (spec.TILE, {"input": t(2), "multiples": ints(0)}, "not positive"),
        (spec.SOFTMAX, {"input": t(2, 3), "axis": -3}, "axis -3 is outside"),
        (spec.TOPK_V2, {"input": t(3), "k": 4}, "k is 4; it must be 1 to 3"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
