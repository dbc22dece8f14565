"""Positions in a flat tensor, of constant and of computed indexes, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.flat_indices import constant_indices, element_positions, row_positions
from tests.operators.lib.emitting import constant, emitted, node, returned, value

SIZES = (3, 4, 5)


def index_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_indexes_at_the_limit_count_from_the_end() -> None:
    index = constant(index_of(-4, -1, 0, 3))
    assert constant_indices(node([None, index]), index, 4) == [0, 3, 0, 3]


@pytest.mark.parametrize("number", [-5, 4])
def test_indexes_just_past_it_are_refused(number: int) -> None:
    index = constant(index_of(0, number))
    with pytest.raises(Reject, match="w has an index outside a dimension of 4") as caught:
        constant_indices(node([None, index]), index, 4)
    assert caught.value.reason is Reason.CONSTANT


def drawn(axis: int) -> np.ndarray:
    """Indexes along one axis, fewer than the tensor has along the others."""
    shape = (2, 3, 2)
    size = SIZES[axis]
    return np.random.default_rng(axis).integers(-size, size, shape).astype(np.int32)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("known", [False, True])
def test_positions_of_elements(axis: int, known: bool) -> None:
    index, x = drawn(axis), value("x", np.zeros(SIZES, np.float32))
    where = list(np.indices(index.shape))
    where[axis] = index % SIZES[axis]
    exact = np.ravel_multi_index(tuple(where), SIZES)
    if known:
        w = constant(index)
        made = emitted(element_positions, node([x, w]), x, w, axis)
        assert made.calls == []
        found = made.returned.constant.array
    else:
        found = returned(lambda n, i: element_positions(n, x, i, axis), index)
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("known", [False, True])
def test_positions_of_rows(known: bool) -> None:
    """Rows of two indexes into the first two dimensions, each row in its own block of 100."""
    rows = np.array([[0, 0], [2, 3], [-1, -4], [-3, 1]], np.int32)
    offsets = 100 * np.arange(4, dtype=np.int32)
    exact = np.ravel_multi_index(tuple((rows % SIZES[:2]).T), SIZES[:2]) + offsets
    if known:
        w = constant(rows)
        found = emitted(row_positions, node([w]), w, SIZES[:2], offsets).returned.constant.array
    else:
        found = returned(lambda n, i: row_positions(n, i, SIZES[:2], offsets), rows)
    np.testing.assert_array_equal(found.reshape(-1), exact)


@pytest.mark.parametrize("row", [(3, 0), (-4, 0), (0, 4), (0, -5)])
def test_constant_rows_past_the_limit_are_refused(row: tuple[int, int]) -> None:
    w = constant(np.array([row], np.int32))
    with pytest.raises(Reject, match=r"w has an index outside \[3, 4\]") as caught:
        emitted(row_positions, node([w]), w, SIZES[:2], np.zeros(1, np.int32))
    assert caught.value.reason is Reason.CONSTANT
