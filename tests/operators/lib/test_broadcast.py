"""Broadcasting of any rank, against numpy: exact, as elements only move or are added once."""

import random
from math import prod
from random import Random

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import ADD
from ep_nnapi.operators.lib.broadcast import broadcast, expand, expanded, select, tile
from ep_nnapi.operators.lib.broadcast_shape import broadcast_shape
from ep_nnapi.operators.lib.merge_axes import merge_broadcast_axes, runs, sizes_around
from tests.operators.lib.emitting import constant, emitted, floats, node, written

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


# Shapes of broadcast tensors, compared with numpy


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_shape_of_numpy_s_sum(seed: int) -> None:
    rng = random.Random(seed)
    whole = [rng.randint(1, 4) for _ in range(rng.randint(0, 4))]
    parts = [
        tuple(rng.choice((1, size)) for size in whole[rng.randint(0, len(whole)) :])
        for _ in range(rng.randint(1, 3))
    ]
    assert broadcast_shape(*parts) == sum((np.zeros(p) for p in parts), np.zeros(())).shape


def test_other_shapes_are_rejected_by_name() -> None:
    with pytest.raises(Reject, match=r"shapes \[4, 2\] and \[3\] do not broadcast") as rejected:
        broadcast_shape((4, 2), (3,))
    assert rejected.value.reason is Reason.SHAPE


# Merging of axes: shapes keep their elements, and broadcast as before


def test_runs_are_of_equal_keys():
    assert runs([]) == []
    assert runs(["a", "a", "b", "a"]) == [[0, 1], [2], [3]]


def test_sizes_before_and_after_an_axis():
    assert sizes_around((2, 3, 4), 0) == (1, 2, 12)
    assert sizes_around((2, 3, 4), 2) == (6, 4, 1)


def test_merged_shapes_broadcast_to_the_same_elements():
    rng = Random(7)
    for case in range(200):
        out = [rng.choice((1, 2, 3)) for _ in range(rng.randint(1, 6))]
        shapes = [
            tuple(rng.choice((1, s)) for s in out)[rng.randint(0, len(out)) :] for _ in range(2)
        ]
        out = list(np.broadcast_shapes(*shapes, tuple(out)))
        merged, merged_out = merge_broadcast_axes(shapes, out)
        assert prod(merged_out) == prod(out), (7, case)
        assert [prod(m) for m in merged] == [prod(s) for s in shapes], (7, case)
        for shape, small in zip(shapes, merged, strict=True):
            x = np.arange(prod(shape))
            wide = np.broadcast_to(x.reshape(shape), out).ravel()
            assert np.array_equal(np.broadcast_to(x.reshape(small), merged_out).ravel(), wide)
