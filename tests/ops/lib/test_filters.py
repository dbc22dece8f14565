"""Constant filters dilated and cut, against numpy."""

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.ops.lib.filters import dilated_filter, filter_rows
from tests.ops.lib.emitting import constant, floats, node, value


def test_a_dilated_filter_has_zeros_between_its_taps():
    w = constant(floats(2, 1, 2, 2))
    found = dilated_filter(node(), w, (2, 3), ((1, 0), (0, 2)))
    array = found.constant.array
    assert found.shape == array.shape == (2, 1, 4, 6)
    assert np.array_equal(array[:, :, 1::2, 0:4:3], w.constant.array)
    assert np.count_nonzero(array) == w.constant.array.size


def test_a_quantized_filter_is_padded_with_its_zero_point():
    w = constant(np.full((1, 1, 2, 2), 9, np.uint8), Quantization((0.5,), (3,)), dtype=DType.UINT8)
    array = dilated_filter(node(), w, (2, 2)).constant.array
    assert array.tolist() == [[[[9, 3, 9], [3, 3, 3], [9, 3, 9]]]]


def test_an_undilated_filter_is_returned_as_it_is():
    w = value("w", floats(1, 1, 2, 2))
    assert dilated_filter(node(), w, (1, 1)) is w


def test_a_computed_filter_cannot_be_dilated_or_cut():
    w = value("w", floats(2, 1, 2, 2))
    for change in (lambda: dilated_filter(node(), w, (2, 2)), lambda: filter_rows(node(), w, 0, 1)):
        with pytest.raises(Reject, match="w must be constant") as caught:
            change()
        assert caught.value.reason is Reason.CONSTANT


def test_rows_keep_their_scales():
    q = Quantization((0.1, 0.2, 0.3), (0, 0, 0), 0)
    w = constant(np.arange(6, dtype=np.int8).reshape(3, 2), q)
    found = filter_rows(node(), w, 1, 3)
    assert found.constant.array.tolist() == [[2, 3], [4, 5]]
    assert found.quantization == Quantization((0.2, 0.3), (0, 0), 0)
