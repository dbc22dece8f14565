"""Tensors in another shape: any type, any rank, and what each level lacks."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL4,
    FL5,
    FL6,
    FL8,
    accepts,
    boolean,
    emitted,
    f16,
    f32,
    i32,
    i64,
    ints,
    matches,
    node,
    rejects,
)

SHAPES = {
    "flat": ((2, 3, 4), (24,)),
    "kept and rest": ((2, 3, 4), (0, -1)),
    "rank 5": ((2, 3, 4), (2, 1, 3, 2, 2)),
    "from rank 6": ((2, 3, 1, 2, 1, 2), (4, -1)),
    "scalar": ((1, 1), ()),
    "from scalar": ((), (1, 1)),
    "same": ((2, 3), (2, 3)),
}


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize(("shape", "to"), SHAPES.values(), ids=SHAPES)
def test_reshape_matches(shape, to, given):
    matches(node("Reshape", given(*shape), ints(*to)), FL8)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten_matches(axis):
    matches(node("Flatten", f32(2, 3, 4), axis=axis), FL1)
    matches(node("Flatten", f32(2, 3, 1, 2, 2), axis=axis), FL1)


@pytest.mark.parametrize("opset", [11, 13])
def test_squeeze_and_unsqueeze_match(opset):
    for axes in ([0], [0, 2], [-1]):
        given = {"axes": axes} if opset < 13 else {}
        more = [] if opset < 13 else [ints(*axes)]
        matches(node("Squeeze", f32(1, 2, 1, 1), *more, opset=opset, **given), FL1)
        matches(node("Unsqueeze", f32(2, 3), *more, opset=opset, **given), FL1)
    matches(node("Squeeze", f32(1, 2, 1), opset=opset), FL1)


def test_unsqueeze_of_integers_and_booleans():
    matches(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL3)
    assert emitted(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL5) == ["EXPAND_DIMS"] * 2
    assert emitted(node("Unsqueeze", i32(2, 3), ints(0, 2)), FL6) == ["RESHAPE"]
    matches(node("Unsqueeze", boolean(2, 3), ints(1)), FL3)


@pytest.mark.parametrize(
    ("given", "level", "operation"),
    [
        (f32(2, 3), FL1, "RESHAPE"),
        (f32(1, 2, 1, 2, 3), FL1, "RESHAPE"),
        (f16(2, 3), FL3, "RESHAPE"),
        (i32(2, 3), FL3, "CAST"),
        (i32(2, 3), FL6, "RESHAPE"),
        (boolean(2, 3), FL3, "LOGICAL_OR"),
        (f32(), FL1, "RESHAPE"),
    ],
    ids=str,
)
def test_identity_matches(given, level, operation):
    assert emitted(node("Identity", given), level) == [operation]
    matches(node("Identity", given), level)


def test_integers_lose_dimensions_from_level_6_on():
    case = node("Reshape", i32(2, 3), ints(6))
    accepts(case, FL6)
    rejects(case, FL5, Reason.LEVEL, "RESHAPE of TENSOR_INT32 needs feature level 6")
    rejects(node("Identity", i32(3)), FL2, Reason.LEVEL, "CAST")


def test_long_integers_are_refused():
    rejects(node("Reshape", i64(2, 3), ints(6)), FL8, Reason.DTYPE, "x0 is INT64")


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_matches(opset):
    matches(node("Dropout", f32(2, 3), opset=opset), FL1)


def test_dropout_in_training_is_refused():
    ratio, yes, no = np.array(0.5, np.float32), np.array(True), np.array(False)
    matches(node("Dropout", f32(2, 3), ratio, no), FL2)
    rejects(node("Dropout", f32(2, 3), ratio, yes), FL8, Reason.ATTRIBUTE, "training_mode is true")
    rejects(node("Dropout", f32(2, 3), ratio, boolean()), FL8, Reason.CONSTANT, "must be constant")
    rejects(node("Dropout", f32(2, 3), outputs=2), FL4, Reason.ATTRIBUTE, "mask is used")


def test_what_takes_more_bytes_than_nnapi_counts_is_refused():
    accepts(node("Identity", f32(32768, 32767)), FL8)
    rejects(node("Identity", f32(32768, 32768)), FL8, Reason.SIZE, "x0 has 4294967296 bytes")
