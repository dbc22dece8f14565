"""Operands of shape inference: what is unknown raises UnknownOperand when it is read."""

import numpy as np
import pytest

from ep_nnapi.nnapi.shapes import ShapeError, Tensor, UnknownOperand
from ep_nnapi.nnapi.shapes.operands import axes_of, axis_of, unify


def test_a_known_array_has_every_property():
    x = Tensor.of(np.array([[1, 2], [3, 4]]))
    assert (x.dims, x.rank, x.ints, x.size(1)) == ((2, 2), 2, (1, 2, 3, 4), 2)


@pytest.mark.parametrize(
    ("tensor", "read"),
    [
        (Tensor(None), lambda x: x.dims),
        (Tensor(None), lambda x: x.rank),
        (Tensor((2,)), lambda x: x.value),
        (Tensor((2,)), lambda x: x.ints),
        (Tensor((2, None)), lambda x: x.size(1)),
    ],
)
def test_unknown_properties_raise(tensor: Tensor, read):
    with pytest.raises(UnknownOperand):
        read(tensor)


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_axes_at_the_limit(axis: int, expected: int):
    assert axis_of(axis, 3) == expected


@pytest.mark.parametrize("axis", [3, -4])
def test_axes_just_past_it(axis: int):
    with pytest.raises(ShapeError, match=f"axis {axis} is outside a tensor of rank 3"):
        axis_of(axis, 3)


def test_axes_are_sorted_without_duplicates():
    assert axes_of((2, -3, -1), 3) == (0, 2)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(2, 2, 2), (None, 2, 2), (2, None, 2), (None, None, None)]
)
def test_sizes_agree(a: int | None, b: int | None, expected: int | None):
    assert unify(a, b) == expected


def test_sizes_that_differ():
    with pytest.raises(ShapeError, match="sizes 2 and 3 must be equal"):
        unify(2, 3)
