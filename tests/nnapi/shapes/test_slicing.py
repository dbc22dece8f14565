"""Shapes of slices and gathers."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import ints, one, t


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.GATHER, {"input": t(2, 3), "axis": 1, "indices": t(4, None)}, (2, 4, None)),
        (spec.SLICE, {"input": t(None, 5), "begin": ints(1, 2), "size": ints(2, -1)}, (2, 3)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.TOPK_V2, {"input": t(3), "k": 4}, "k is 4; it must be 1 to 3"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
