"""Shapes of elementwise operations: operands broadcast, aligned at the last axis."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import one, t


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (1, 5), (2, 5)),
        ((None, 3), (2, 1), (2, 3)),
        ((None, 3), (1, 3), (None, 3)),
        ((None,), (None,), (None,)),
        ((0, 3), (1, 3), (0, 3)),
        ((), (4,), (4,)),
    ],
    ids=str,
)
def test_broadcasting(first, second, expected):
    assert one(spec.ADD, input1=t(*first), input2=t(*second), activation=0) == expected


@pytest.mark.parametrize("sizes", [(2, 3), (0, 2)], ids=str)
def test_sizes_that_do_not_broadcast(sizes):
    with pytest.raises(ShapeError, match="do not broadcast"):
        one(spec.ADD, input1=t(sizes[0]), input2=t(sizes[1]), activation=0)
