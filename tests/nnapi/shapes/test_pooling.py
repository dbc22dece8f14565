"""Shapes of pools."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import one, t

WINDOW = {"stride_width": 1, "stride_height": 1, "activation": 0}
EXPLICIT = {f"padding_{side}": 0 for side in ("left", "right", "top", "bottom")} | WINDOW


def test_a_pool_sees_more_than_padding():
    pool = {"input": t(1, 5, 5, 2), "filter_width": 2, "filter_height": 2} | EXPLICIT
    assert one(spec.MAX_POOL_2D, **pool | {"padding_left": 1}) == (1, 4, 5, 2)
    with pytest.raises(ShapeError, match="padding of 2 is not below"):
        one(spec.MAX_POOL_2D, **pool | {"padding_left": 2})
