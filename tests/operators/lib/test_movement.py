"""Broadcasts and slices of any rank, against numpy: exact, as elements only move."""

import random
from math import prod
from random import Random

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.nnapi.spec import ADD
from ep_nnapi.operators.lib.movement import (
    broadcast,
    equal_parts,
    expand,
    expanded,
    merge_broadcast_axes,
    merged,
    runs,
    select,
    sizes_around,
    slice_spans,
    sliced,
    tile,
    transpose,
)
from ep_nnapi.operators.lib.node import Node, broadcast_shape
from tests.operators.lib.emitting import constant, emitted, floats, node, returned, value, written

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


SPANS = [
    (Span(0, 4), Span(1, 5)),
    (Span(1, 4, 2), Span(0, 5)),
    (Span(3, -1, -1), Span(4, 0, -2)),
    (Span(0, 2), Span(0, 3), Span(1, 2), Span(0, 4), Span(1, 5), Span(0, 2)),
]


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_spans_match(spans: tuple[Span, ...], dtype: type):
    shape = (4, 5) if len(spans) == 2 else (2, 3, 3, 4, 5, 2)
    x = (100 * floats(*shape)).astype(dtype)
    exact = x[np.ix_(*[s.indexes for s in spans])]
    found = written(lambda n, x, y: slice_spans(n, x, spans, y), x, like=exact)
    assert np.array_equal(found, exact)


@pytest.mark.parametrize("level", [2, 3])
def test_slices_at_levels_without_slice_match(level: int):
    x = floats(4, 5)
    exact = x[1:3, 2:]
    spans = (Span(1, 3), Span(2, 5))
    found = written(lambda n, x, y: slice_spans(n, x, spans, y), x, like=exact, level=level)
    assert np.array_equal(found, exact)


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


# Reversed axes and indexes, against numpy

X = floats(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("level", [3, 8])
def test_an_axis_is_reversed(axis: int, level: int):
    found = returned(lambda n, x: n.reverse_axis(x, axis), X, level=level)
    assert np.array_equal(found, np.flip(X, axis))


def test_an_axis_of_size_1_takes_no_operation():
    x = value("x", floats(1, 3))
    made = emitted(Node.reverse_axis, node([x]), x, 0)
    assert (made.calls, made.returned) == ([], x)


def test_indexes_are_counted_from_the_end():
    at = np.array([0, 3, 4], np.int32)
    found = written(lambda n, x, y: n.mirrored_indices(x, 5, y), at, like=at)
    assert found.tolist() == [4, 1, 0]


# Transposes of any rank, against numpy: exact, as elements only move

PERMS = [(1, 0), (0, 2, 1), (3, 1, 0, 2), (4, 3, 2, 1, 0), (0, 1, 4, 2, 3), (5, 0, 4, 1, 3, 2)]


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_permutations_match(perm: tuple[int, ...], dtype: type):
    x = (100 * floats(*range(2, 2 + len(perm)))).astype(dtype)
    exact = np.transpose(x, perm)
    assert np.array_equal(written(lambda n, x, y: transpose(n, x, perm, y), x, like=exact), exact)


def test_axes_that_stay_adjacent_are_merged():
    assert merged((2, 3, 1, 4, 5), (3, 4, 0, 1, 2)) == ([6, 20], [1, 0])
    assert merged((2, 3, 4), (0, 1, 2)) == ([24], [0])
