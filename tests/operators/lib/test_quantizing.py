"""Quantized constants and biases, against the affine formula in float64."""

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.quantizing import (
    as_type,
    bias,
    dequantized,
    exact_constant,
    is_8bit,
    nearest_constant,
    require_8bit,
    require_scale,
    require_storable,
    value_range,
)
from tests.operators.lib.emitting import constant, floats, value

Q = Quantization((0.5,), (3,))
X = Value("x", DType.UINT8, (2,), Q)


def real(v: Value) -> np.ndarray:
    q, stored = v.quantization, v.constant.array.astype(np.float64)
    return (stored - np.array(q.zero_point)) * np.array(q.scale)


def test_8_bits_are_quantized_per_tensor():
    assert is_8bit(X)
    assert not is_8bit(value("x", floats(2)))
    assert not is_8bit(Value("x", DType.UINT8, (2,), Quantization((0.5, 0.5), (3, 3), 0)))


def test_both_signs_store_the_same_numbers():
    w = constant(np.array([0, 3, 255], np.uint8), Q)
    signed = as_type(w, DType.INT8)
    assert signed.constant.array.tolist() == [-128, -125, 127]
    assert np.array_equal(real(signed), real(w))


def test_per_channel_constants_are_dequantized_along_their_axis():
    w = constant(np.array([[1, 2], [3, 4]], np.int8), Quantization((0.5, 0.25), (0, 1), 0))
    assert dequantized(w).constant.array.tolist() == [[0.5, 1.0], [0.5, 0.75]]


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("end", ["min", "max"])
def test_all_numbers_are_dequantized_exactly(kind: type, end: str):
    """The difference to the zero point is exact; only the product with the scale is rounded."""
    ends = np.iinfo(kind)
    every, zero = np.arange(ends.min, ends.max + 1), getattr(ends, end)
    given = constant(every.astype(kind), Quantization((0.1,), (zero,)))
    want = (every - zero).astype(np.float32) * np.float32(0.1)
    np.testing.assert_array_equal(dequantized(given).constant.array, want)


@pytest.mark.parametrize("number", [0.0, 0.3, -1.7, 2.5e-3])
def test_one_number_is_a_constant_without_rounding(number: float):
    assert real(exact_constant(number, X)) == np.float32(number)


def test_numbers_beyond_the_range_saturate():
    assert value_range(X) == (-1.5, 126.0)
    assert [real(nearest_constant(x, X))[0] for x in (-9, 0.2, 0.3, 500)] == [-1.5, 0, 0.5, 126]


def test_a_bias_has_the_product_of_the_scales():
    weights = constant(np.zeros((2, 2), np.int8), Quantization((0.1, 0.2), (0, 0), 0))
    given = constant(np.array([1.0, -3.0], np.float32))
    found = bias(X, weights, given, 2)
    assert found.constant.array.tolist() == [20, -30]
    assert (found.dtype, found.quantization) == (DType.INT32, Quantization((0.0,), (0,)))
    assert bias(X, weights, None, 2).constant.array.tolist() == [0, 0]


def test_a_computed_bias_of_another_scale_is_refused():
    weights = constant(np.zeros((2, 2), np.uint8), Q)
    given = Value("b", DType.INT32, (2,), Quantization((9.0,), (0,)))
    with pytest.raises(Reject, match="b is not constant") as caught:
        bias(X, weights, given, 2)
    assert caught.value.reason is Reason.QUANTIZATION


@pytest.mark.parametrize("scale", [float(np.finfo(np.float32).tiny), 1.0])
def test_scales_at_the_limit(scale: float):
    require_scale(Value("x", DType.UINT8, (2,), Quantization((scale,), (0,))))


@pytest.mark.parametrize("scale", [0.0, 1e-39, float("inf"), -1.0])
def test_scales_just_past_it(scale: float):
    with pytest.raises(Reject, match="x has the scale") as caught:
        require_scale(Value("x", DType.UINT8, (2,), Quantization((scale,), (0,))))
    assert caught.value.reason is Reason.QUANTIZATION


def test_16_bits_and_scales_by_channel_are_refused():
    with pytest.raises(Reject, match="UINT16") as caught:
        require_8bit(Value("x", DType.UINT16, (2,), Q))
    assert caught.value.reason is Reason.DTYPE
    with pytest.raises(Reject, match="per-channel scales"):
        require_storable([Value("x", DType.UINT8, (2,), Quantization((0.5, 1.0), (0, 0), 0))])
