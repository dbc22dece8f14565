"""Shapes of normalizations: those of the input."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import one, t


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.SOFTMAX, {"input": t(2, 3), "axis": -3}, "axis -3 is outside"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
