"""Stored elements and real numbers, compared with the formula in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.codec import decode, encode, is_coded, limits, quantize
from ep_nnapi.nnapi.model import ChannelQuantization, Operand
from ep_nnapi.nnapi.spec import F16, Q8, Q8S, Q16Y


def operand(code: OperandCode, scale: float = 0.25, zero_point: int = 0) -> Operand:
    return Operand(code, (2,), scale, zero_point)


QUANTIZED = [operand(Q8, 0.25, 7), operand(Q8S, 0.25, -7), operand(Q16Y)]


@pytest.mark.parametrize("given", QUANTIZED, ids=lambda o: o.type.name)
def test_every_stored_number_is_decoded_exactly_and_encoded_back(given: Operand) -> None:
    """Scale 1/4: every product is a float32."""
    least, greatest = limits(given.type)
    stored = np.arange(least, greatest + 1).astype(given.type.numpy)
    real = decode(stored, given)
    assert real.dtype == np.float32
    expected = given.scale * (stored.astype(np.float64) - given.zero_point)
    np.testing.assert_array_equal(real, expected)
    for convert in (encode, quantize):
        out = np.empty_like(stored)
        convert(real, given, out)
        np.testing.assert_array_equal(out, stored)


@pytest.mark.parametrize("given", QUANTIZED, ids=lambda o: o.type.name)
def test_beyond_the_range_saturates(given: Operand) -> None:
    least, greatest = limits(given.type)
    ends = [given.scale * (end - given.zero_point) for end in (least, greatest)]
    real = np.array([ends[0] - 1, -np.inf, -1e37, ends[1] + 1, np.inf, 1e37], np.float32)
    for convert in (encode, quantize):
        out = np.empty(real.shape, given.type.numpy)
        convert(real, given, out)
        assert out.tolist() == [least] * 3 + [greatest] * 3


def test_ties_go_up_except_in_quantize_where_they_go_away_from_zero() -> None:
    given, out = operand(Q8S, 1.0), np.empty(4, np.int8)
    ties = np.array([-1.5, -0.5, 0.5, 1.5], np.float32)
    encode(ties, given, out)
    assert out.tolist() == [-1, 0, 1, 2]
    quantize(ties, given, out)
    assert out.tolist() == [-2, -1, 1, 2]


def test_more_than_a_block_and_strided_arrays() -> None:
    """Arrays are converted in blocks of 2^15 elements; others than contiguous ones at once."""
    rng = np.random.default_rng(0)
    given = operand(Q8, 0.1, 128)
    real = rng.uniform(-15, 15, (3, 1 << 15)).astype(np.float32)
    whole, strided = (np.empty(real.shape, np.uint8) for _ in range(2))
    encode(real, given, whole)
    encode(real.T, given, strided.T)
    np.testing.assert_array_equal(whole, strided)
    steps = real.astype(np.float64) / 0.1 + 128
    # half a step, and float32's rounding of the product
    assert np.max(np.abs(whole - np.clip(steps, 0, 255))) <= 0.5 + 256 * 2**-23


def test_per_channel_scales_apply_along_their_dimension() -> None:
    code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
    given = Operand(code, (2, 3), channels=ChannelQuantization(1, (0.5, 1.0, 2.0)))
    stored = np.array([[1, 2, 3], [-1, -2, -3]], np.int8)
    np.testing.assert_array_equal(decode(stored, given), stored * [0.5, 1.0, 2.0])


def test_halves_are_floats_and_other_types_are_not_coded() -> None:
    stored = np.array([1.5, 65504], np.float16)
    np.testing.assert_array_equal(decode(stored, operand(F16)), stored.astype(np.float32))
    assert is_coded(operand(F16))
    for code in (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_INT32, OperandCode.TENSOR_BOOL8):
        given = Operand(code, (2,))
        assert not is_coded(given)
        stored = np.zeros(2, code.numpy)
        assert decode(stored, given) is stored
