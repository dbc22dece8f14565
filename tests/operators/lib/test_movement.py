"""What operators made of moves do not show: constants, merged axes, parts by level."""

import random
from math import prod
from random import Random

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.movement import (
    equal_parts,
    expanded,
    merge_broadcast_axes,
    merged,
    reversed_along,
    runs,
    sizes_around,
    sliced,
)
from ep_nnapi.operators.lib.node import broadcast_shape
from tests.operators.lib.emitting import constant, emitted, floats, node, value


def test_a_constant_is_expanded_without_operations():
    w = constant(floats(3, 1))
    made = emitted(expanded, node(), w, (2, 3, 4))
    assert made.calls == []
    assert np.array_equal(
        made.returned.constant.array, np.broadcast_to(w.constant.array, (2, 3, 4))
    )


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


def test_a_constant_is_sliced_without_operations():
    w = constant(floats(4, 3))
    made = emitted(sliced, node(), w, (Span(1, 3), Span(0, 3)), (6,))
    assert made.calls == []
    assert np.array_equal(made.returned.constant.array, w.constant.array[1:3].reshape(6))


@pytest.mark.parametrize(("level", "operation"), [(2, "STRIDED_SLICE"), (3, "SPLIT")])
def test_parts_are_split_where_the_level_can(level: int, operation: str):
    x = value("x", floats(2, 6))
    made = emitted(equal_parts, node([x], level=level), x, 1, 3)
    assert set(made.names) == {operation}
    assert [v.shape for v in made.returned] == [(2, 2)] * 3


def test_one_part_is_the_tensor_itself():
    x = value("x", floats(2, 6))
    assert emitted(equal_parts, node([x]), x, 1, 1).returned == [x]


def test_an_axis_of_size_1_takes_no_operation():
    x = value("x", floats(1, 3))
    made = emitted(reversed_along, node([x]), x, 0)
    assert (made.calls, made.returned) == ([], x)


def test_axes_that_stay_adjacent_are_merged():
    assert merged((2, 3, 1, 4, 5), (3, 4, 0, 1, 2)) == ([6, 20], [1, 0])
    assert merged((2, 3, 4), (0, 1, 2)) == ([24], [0])
