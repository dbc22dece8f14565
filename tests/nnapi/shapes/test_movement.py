"""Shapes of operations that move elements."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import ints, one, t


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.RESHAPE, {"input": t(None, 6), "shape": ints(-1, 2)}, (None, 2)),
        (spec.RESHAPE, {"input": t(2, 6), "shape": ints(-1, 2)}, (6, 2)),
        (spec.CONCATENATION, {"inputs": (t(2, None), t(2, 3)), "axis": 0}, (4, 3)),
        (spec.CONCATENATION, {"inputs": (t(None, 3), t(2, 3)), "axis": -2}, (None, 3)),
        (spec.PAD, {"input": t(2, None), "paddings": ints(1, 2, 0, 3)}, (5, None)),
        (spec.TRANSPOSE, {"input": t(2, None)}, (None, 2)),
        (spec.SQUEEZE, {"input": t(1, None), "axes": ints(0)}, (None,)),
        (spec.SQUEEZE, {"input": t(1, None)}, None),
        (spec.FILL, {"dims": ints(2, 0), "value": 1.0}, (2, 0)),
        (spec.RANK, {"input": t(2, 3)}, ()),
        (spec.PACK, {"axis": 1, "inputs": (t(2, 3), t(None, 3))}, (2, 2, 3)),
        (spec.TILE, {"input": t(2, None), "multiples": ints(3, 2)}, (6, None)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.TRANSPOSE, {"input": t(2, 3), "perm": ints(0, 0)}, "does not permute"),
        (spec.TRANSPOSE, {"input": t(2, 3, 4)}, "rank 3 takes a perm"),
        (spec.SQUEEZE, {"input": t(2, 3), "axes": ints(0)}, "sizes 2 and 1"),
        (spec.EXPAND_DIMS, {"input": t(2, 3), "axis": 3}, "axis 3 is outside"),
        (spec.CONCATENATION, {"inputs": (t(2, 3), t(2, 4)), "axis": 0}, "sizes 3 and 4"),
        (spec.CONCATENATION, {"inputs": (t(2), t(2, 4)), "axis": 0}, "ranks"),
        (spec.PAD, {"input": t(2), "paddings": ints(-1, 0)}, "negative"),
        (spec.SPLIT, {"input": t(5), "axis": 0, "num_splits": 2}, "no 2 equal parts"),
        (spec.FILL, {"dims": ints(-1), "value": 1.0}, "negative"),
        (spec.REVERSE, {"input": t(3), "axis": ints(1)}, "axis 1 is outside"),
        (spec.PACK, {"axis": 2, "inputs": (t(2),)}, "axis 2 is outside"),
        (spec.TILE, {"input": t(2), "multiples": ints(0)}, "not positive"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
