"""Limits on scratch memory: at the limit, and just past it."""

import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.shapes import Tensor
from ep_nnapi.nnapi.shapes.scratch import require_scratch
from ep_nnapi.nnapi.spec import MAX_POOL_2D

WINDOW = {
    **dict.fromkeys(("padding_left", "padding_right", "padding_bottom"), 0),
    **{"stride_width": 1, "stride_height": 1, "filter_width": 1, "activation": 0},
}


def pool(padding: int) -> dict[str, object]:
    """An image of one pixel padded above to a column of 1 + `padding` pixels, all pooled."""
    return {"input": Tensor((1, 1, 1, 1)), "padding_top": padding, "filter_height": 1, **WINDOW}


def test_64_ki_elements_are_always_allowed():
    require_scratch(MAX_POOL_2D, pool(2**16 - 1), 0)


def test_beyond_it_16_elements_for_each_of_the_operands():
    require_scratch(MAX_POOL_2D, pool(2**16 + 32 - 1), 2)
    with pytest.raises(Reject, match="POOL_2D needs scratch memory of 65569") as caught:
        require_scratch(MAX_POOL_2D, pool(2**16 + 32), 2)
    assert caught.value.reason is Reason.SIZE
    require_scratch(MAX_POOL_2D, pool(2**16 + 32), 2, times=2)


def test_unknown_sizes_pass():
    require_scratch(MAX_POOL_2D, {**pool(2**30), "input": Tensor((1, None, 1, 1))}, 0)
