"""Tensors that depend on sizes and constants alone."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL2,
    FL3,
    FL4,
    FL8,
    accepts,
    boolean,
    emitted,
    f32,
    graph,
    i64,
    matches,
    node,
    rejects,
)


def beside(op_type, *given, opset=21, **attributes):
    """The node beside another, for a model of NNAPI has at least one input."""
    names = [f"x{i}" for i in range(len(given))]
    nodes = [
        helper.make_node(op_type, names, ["y0"], "node", **attributes),
        helper.make_node("Relu", ["beside"], ["y1"], "beside"),
    ]
    inputs = dict(zip(names, given, strict=True)) | {"beside": f32(2)}
    return graph(nodes, inputs, outputs=2, opset=opset)


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -3, "end": -1}, {"end": 2}])
def test_shape_matches(bounds):
    matches(beside("Shape", f32(2, 3, 4, 5), **bounds), FL3)
    matches(beside("Shape", boolean(2, 3, 1, 2, 5), **bounds), FL8)


def test_size_matches():
    for x in (f32(2, 3, 4), f32(), boolean(3, 2)):
        matches(beside("Size", x), FL3)


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize(
    "dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64]
)
def test_eye_like_matches(dtype, k):
    matches(beside("EyeLike", f32(3, 5), k=k, dtype=dtype), FL3)


def test_eye_like_of_its_own_type_matches():
    matches(beside("EyeLike", f32(4, 4)), FL3)
    assert emitted(beside("EyeLike", f32(4, 4)), FL3) == ["RESHAPE", "RELU"]


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (10, -3, -4), (0.5, 2.5, 0.25), (-1.0, 1.0, 0.3)], ids=str
)
def test_range_matches(bounds):
    dtype = np.float32 if isinstance(bounds[0], float) else np.int64
    matches(
        beside("Range", *(np.array(b, dtype) for b in bounds)), FL3, atol=1e-6
    )  # added one by one or not


@pytest.mark.parametrize("number", [1.5, np.float16(2), np.int32(-3), np.int64(7), np.bool_(True)])
def test_constant_of_shape_matches(number):
    value = numpy_helper.from_array(np.array([number], getattr(number, "dtype", np.float32)))
    for shape in ([2, 3], [5000, 2], [2, 1, 2, 1, 3]):
        case = beside("ConstantOfShape", np.array(shape, np.int64), value=value)
        matches(case, FL8)
    matches(beside("ConstantOfShape", np.array([3], np.int64)), FL3)


def test_many_equal_numbers_are_filled():
    case = beside("ConstantOfShape", np.array([100, 100], np.int64))
    assert "FILL" in emitted(case, FL4)
    assert "FILL" not in emitted(case, FL3)


def test_integers_need_level_3():
    accepts(node("Size", f32(2, 3)), FL3)
    rejects(node("Size", f32(2, 3)), FL2, Reason.LEVEL, "CAST")


def test_what_is_not_known_is_refused():
    rejects(node("Shape", f32("n", 3)), FL8, Reason.SHAPE, "'n'")
    large = node("Range", *(np.array(b, np.int64) for b in (2**40, 2**40 + 2, 1)))
    rejects(large, FL8, Reason.DTYPE, "INT32 does not hold")
    output = helper.make_tensor_type_proto(TensorProto.INT64, [3])
    computed = node("Range", i64(), i64(), i64(), output_types=[output])
    rejects(computed, FL8, Reason.CONSTANT, "must be constant")
