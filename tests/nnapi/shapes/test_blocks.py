"""Shapes of operations on blocks of pixels."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import one, t


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.SPACE_TO_DEPTH, {"input": t(1, 4, None, 3), "block_size": 2}, (1, 2, None, 12)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.DEPTH_TO_SPACE, {"input": t(1, 2, 2, 6), "block_size": 2}, "depth 6"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
