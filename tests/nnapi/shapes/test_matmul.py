"""Shapes of matrix products."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import one, t


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


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.BATCH_MATMUL, {"input1": t(2, 3, None), "input2": t(2, 4, 5)}, (2, 3, 5)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.BATCH_MATMUL, {"input1": t(2, 3), "input2": t(2, 3)}, "sizes 3 and 2"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
