"""Casts between all types that NNAPI holds."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL8,
    Fed,
    accepts,
    boolean,
    emitted,
    f32,
    f64,
    i32,
    i64,
    matches,
    node,
    rejects,
)

TYPES = {
    "float": TensorProto.FLOAT,
    "half": TensorProto.FLOAT16,
    "int": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}
SHAPES = [(2, 3), (), (2, 1, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("source", "to"), [*itertools.product(TYPES, TYPES)])
def test_cast_matches(source, to, shape):
    matches(node("Cast", Fed(TYPES[source], shape, -9, 9), to=TYPES[to]), FL8)


@pytest.mark.parametrize("to", ["float", "half", "int", "bool"])
@pytest.mark.parametrize("source", [TensorProto.UINT8, TensorProto.INT8])
def test_cast_of_bytes_matches(source, to):
    low = 0 if source == TensorProto.UINT8 else -128
    matches(node("Cast", Fed(source, (50,), low, low + 255), to=TYPES[to]), FL8)


def test_cast_of_an_image_is_one_operation_at_level_1():
    image = Fed(TensorProto.UINT8, (1, 3, 4, 4), 0, 255)
    case = node("Cast", image, to=TensorProto.FLOAT)
    assert emitted(case, FL1) == ["DEQUANTIZE"]
    matches(case, FL1)


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.INT32])
def test_cast_like_matches(to):
    matches(node("CastLike", f32(2, 3, low=-9, high=9), Fed(to, (1,))), FL8)


def test_long_integers_where_their_range_is_known():
    matches(node("Cast", i32(2, 3), to=TensorProto.INT64), FL3)
    matches(node("Cast", boolean(2, 3), to=TensorProto.INT64), FL3)
    wide = np.array([2**31, -(2**40) + 7, 3], np.int64)
    matches(node("Cast", i64(3), to=TensorProto.INT32), FL3, feeds={"x0": wide})


def test_cast_levels():
    case = node("Cast", f32(2), to=TensorProto.INT32)
    accepts(case, FL3)
    rejects(case, FL2, Reason.LEVEL, "CAST")
    signed = node("Cast", Fed(TensorProto.INT8, (30,), -128, 127), to=TensorProto.FLOAT)
    matches(signed, FL1)  # as unsigned bytes, which the border makes of them


def test_cast_refusals():
    unknown = "may exceed INT32"
    rejects(node("Cast", i64(3), to=TensorProto.FLOAT), FL8, Reason.DTYPE, unknown)
    rejects(node("Cast", f32(3), to=TensorProto.INT64), FL8, Reason.DTYPE, unknown)
    rejects(node("Cast", f64(3), to=TensorProto.FLOAT), FL8, Reason.DTYPE, "DOUBLE")
    rejects(node("Cast", f32(3), to=TensorProto.UINT8), FL8, Reason.DTYPE, "UINT8")
