"""Shapes of reductions along axes."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from tests.nnapi.shapes.operands import ints, one, t


@pytest.mark.parametrize(
    ("keep", "expected"), [(1, (2, 1)), (100, (2, 1)), (0, (2,)), (-100, (2,))], ids=str
)
def test_a_mean_keeps_dimensions_if_told_a_positive_number(keep, expected):
    assert one(spec.MEAN, input=t(2, 3), axes=ints(1), keep_dims=keep) == expected


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(2, 0), "keep_dims": 0}, (None,)),
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(-1), "keep_dims": 1}, (2, None, 1)),
        (spec.REDUCE_SUM, {"input": t(2, 3), "axes": ints(0, 1), "keep_dims": False}, (1,)),
        (spec.ARGMAX, {"input": t(5), "axis": 0}, (1,)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected
