"""Broadcasting of any rank, against numpy: exact, as elements only move or are added once."""

import numpy as np
import pytest

from ep_nnapi.nnapi.spec import ADD
from ep_nnapi.ops.lib.broadcast import broadcast, expand, expanded, select, tile
from tests.ops.lib.emitting import constant, emitted, floats, node, written

PAIRS = [
    ((2, 3), (3,)),
    ((2, 3, 4, 5, 6), (4, 1, 1)),
    ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3)),
    ((2, 3, 1, 2, 3), ()),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_operands_of_any_rank_broadcast(first: tuple[int, ...], second: tuple[int, ...]):
    a, b = floats(*first), floats(*second) + np.float32(1)
    found = written(lambda n, a, b, y: broadcast(n, ADD, (a, b), y), a, b, like=a + b)
    assert np.array_equal(found, a + b)


@pytest.mark.parametrize(
    ("shape", "out"), [((3, 1), (2, 3, 4)), ((1, 2, 1, 2, 1), (3, 2, 3, 2, 2)), ((2,), (2,))]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_tensors_expand(shape: tuple[int, ...], out: tuple[int, ...], dtype: type):
    x = (floats(*shape) > 0).astype(dtype)
    wide = np.broadcast_to(x, out)
    assert np.array_equal(written(expand, x, like=wide), wide)


def test_a_constant_is_expanded_without_operations():
    w = constant(floats(3, 1))
    made = emitted(expanded, node(), w, (2, 3, 4))
    assert made.calls == []
    assert np.array_equal(
        made.returned.constant.array, np.broadcast_to(w.constant.array, (2, 3, 4))
    )


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3, 1, 2)])
def test_tiles_match(shape: tuple[int, ...]):
    x, repeats = floats(*shape), tuple(range(1, len(shape) + 1))
    wide = np.tile(x, repeats)
    found = written(lambda n, x, y: tile(n, x, x.shape, repeats, y), x, like=wide)
    assert np.array_equal(found, wide)


def test_selected_tensors_broadcast():
    condition, a, b = np.array([[True], [False]]), floats(3), floats(2, 3) + np.float32(9)
    exact = np.where(condition, a, b)
    assert np.array_equal(written(select, condition, a, b, like=exact), exact)
