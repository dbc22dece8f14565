"""Tensors that depend on sizes and constants alone."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.nnapi.errors import Reason
from tests import oracle


def beside(op_type, *given, opset=21, **attributes):
    """The node beside another, for a model of NNAPI has at least one input."""
    names = [f"x{i}" for i in range(len(given))]
    nodes = [
        helper.make_node(op_type, names, ["y0"], "node", **attributes),
        helper.make_node("Relu", ["beside"], ["y1"], "beside"),
    ]
    inputs = dict(zip(names, given, strict=True)) | {"beside": oracle.f32(2)}
    return oracle.graph(nodes, inputs, outputs=2, opset=opset)


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -3, "end": -1}, {"end": 2}])
def test_shape_matches(bounds):
    oracle.matches(beside("Shape", oracle.f32(2, 3, 4, 5), **bounds), oracle.FL3)
    oracle.matches(beside("Shape", oracle.boolean(2, 3, 1, 2, 5), **bounds), oracle.FL8)


def test_size_matches():
    for x in (oracle.f32(2, 3, 4), oracle.f32(), oracle.boolean(3, 2)):
        oracle.matches(beside("Size", x), oracle.FL3)


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize(
    "dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64]
)
def test_eye_like_matches(dtype, k):
    oracle.matches(beside("EyeLike", oracle.f32(3, 5), k=k, dtype=dtype), oracle.FL3)


def test_eye_like_of_its_own_type_matches():
    oracle.matches(beside("EyeLike", oracle.f32(4, 4)), oracle.FL3)
    assert oracle.emitted(beside("EyeLike", oracle.f32(4, 4)), oracle.FL3) == ["RESHAPE", "RELU"]


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (10, -3, -4), (0.5, 2.5, 0.25), (-1.0, 1.0, 0.3)], ids=str
)
def test_range_matches(bounds):
    dtype = np.float32 if isinstance(bounds[0], float) else np.int64
    oracle.matches(
        beside("Range", *(np.array(b, dtype) for b in bounds)), oracle.FL3, atol=1e-6
    )  # added one by one or not


@pytest.mark.parametrize("number", [1.5, np.float16(2), np.int32(-3), np.int64(7), np.bool_(True)])
def test_constant_of_shape_matches(number):
    value = numpy_helper.from_array(np.array([number], getattr(number, "dtype", np.float32)))
    for shape in ([2, 3], [5000, 2], [2, 1, 2, 1, 3]):
        case = beside("ConstantOfShape", np.array(shape, np.int64), value=value)
        oracle.matches(case, oracle.FL8)
    oracle.matches(beside("ConstantOfShape", np.array([3], np.int64)), oracle.FL3)


def test_many_equal_numbers_are_filled():
    case = beside("ConstantOfShape", np.array([100, 100], np.int64))
    assert "FILL" in oracle.emitted(case, oracle.FL4)
    assert "FILL" not in oracle.emitted(case, oracle.FL3)


def test_integers_need_level_3():
    oracle.accepts(oracle.node("Size", oracle.f32(2, 3)), oracle.FL3)
    oracle.rejects(oracle.node("Size", oracle.f32(2, 3)), oracle.FL2, Reason.LEVEL, "CAST")


def test_what_is_not_known_is_refused():
    oracle.rejects(oracle.node("Shape", oracle.f32("n", 3)), oracle.FL8, Reason.SHAPE, "'n'")
    large = oracle.node("Range", *(np.array(b, np.int64) for b in (2**40, 2**40 + 2, 1)))
    oracle.rejects(large, oracle.FL8, Reason.DTYPE, "INT32 does not hold")
    output = helper.make_tensor_type_proto(TensorProto.INT64, [3])
    computed = oracle.node("Range", oracle.i64(), oracle.i64(), oracle.i64(), output_types=[output])
    oracle.rejects(computed, oracle.FL8, Reason.CONSTANT, "must be constant")
