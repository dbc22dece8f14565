"""Products: batches at their limit, scales of quantized weights, scaled constants."""

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.arguments import View
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib import matmul
from tests.operators.lib.emitting import constant, emitted, floats, node, value


def names(a: tuple[int, ...], b: tuple[int, ...], level: int) -> list[str]:
    lhs, rhs = value("a", np.zeros(a, np.float32)), value("b", np.zeros(b, np.float32))
    y = value("y", np.matmul(np.zeros(a, np.float32), np.zeros(b, np.float32)))
    return emitted(matmul.product, node([lhs, rhs], [y], level=level), lhs, rhs, y).names


def test_batches_at_the_limit_and_past_it() -> None:
    """Past it, BATCH_MATMUL stays, which the level then refuses."""
    most = matmul.MAX_BATCH_LAYERS
    assert names((most, 1, 2), (most, 2, 1), 5).count("FULLY_CONNECTED") == most
    assert names((most + 1, 1, 2), (most + 1, 2, 1), 5) == ["BATCH_MATMUL"]


CHANNELS = Quantization((0.5, 0.25), (0, 0), 0)
STORED = np.array([[1, 2, 3], [4, 5, 6]], np.int8)


def layer(weights: Value | View):
    q = Quantization((1.0,), (0,))
    rows, y = Value("x", DType.INT8, (4, 3), q), Value("y", DType.INT8, (4, 2), q)
    shift = constant(np.zeros(2, np.int32), name="b")
    n = node([rows], [y])
    return emitted(matmul.write_fully_connected, n, rows, weights, shift, y)


def test_a_scale_for_each_unit_needs_a_convolution() -> None:
    one_scale = constant(STORED, Quantization((0.5,), (0,)))
    assert layer(one_scale).names == ["FULLY_CONNECTED"]
    made = layer(constant(STORED, CHANNELS))
    assert made.names == ["RESHAPE", "CONV_2D", "RESHAPE"]
    assert made.calls[1].named()["input"].shape == (1, 4, 1, 3)  # one product, not one per row
    filters = made.calls[1].named()["filter"]
    assert filters.shape == (2, 1, 1, 3)
    assert filters.quantization == CHANNELS
    assert filters.constant.array.reshape(2, 3).tolist() == STORED.tolist()


def test_transposed_weights_with_scales_along_their_outputs() -> None:
    stored = constant(STORED.T.copy(), Quantization((0.5, 0.25), (0, 0), 1))
    filters = layer(View(stored, matmul.MATRIX_TRANSPOSE)).calls[1].named()["filter"]
    assert filters.constant.array.reshape(2, 3).tolist() == STORED.tolist()
    assert filters.quantization.axis == 0


def test_scales_along_the_inputs_are_refused() -> None:
    stored = constant(STORED, Quantization((0.5, 0.25, 1.0), (0, 0, 0), 1))
    with pytest.raises(Reject, match="w has scales along its inputs; quantize it along") as caught:
        layer(stored)
    assert caught.value.reason is Reason.QUANTIZATION


def test_a_constant_is_scaled_in_its_own_type() -> None:
    w = constant(floats(2, 3))
    found = matmul.scaled_constant(node(), w, 0.1)
    np.testing.assert_array_equal(found.constant.array, w.constant.array * np.float32(0.1))
    assert matmul.scaled_constant(node(), w, 1) is w
    x = value("x", floats(2))
    assert matmul.scaled_constant(node(), x, 0.1) is x


def test_a_quantized_constant_is_not_scaled() -> None:
    w = constant(STORED, Quantization((0.5,), (0,)))
    assert matmul.scaled_constant(node(), w, 1) is w
    with pytest.raises(Reject, match="w is quantized; use a factor of 1") as caught:
        matmul.scaled_constant(node(), w, 2)
    assert caught.value.reason is Reason.ATTRIBUTE
