"""Classes of scalars and of constant tensors of indexes."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi.profile.classes import class_of_contents, class_of_scalar


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("activation", 3, "3"),
        ("layout", True, "True"),
        ("axis", -1, "-1"),
        ("stride_width", 2, "2"),
        ("stride_width", 3, "3+"),
        ("stride_width", 17, "3+"),
        ("stride_width", 0, "0-"),
        ("padding_left", 0, "0"),
        ("padding_left", 1, "+"),
        ("output_width", 7, "size"),
        ("beta", 1.0, "1"),
        ("beta", 0.5, "+"),
        ("beta", -0.5, "-"),
    ],
)
def test_scalars(name: str, value: float, found: str):
    assert class_of_scalar(name, value) == found


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("axes", [2, 1], "1,2"),
        ("axes", [-2, -1], "- -2,-1"),
        ("perm", [0, 3, 1, 2], "0,3,1,2"),
        ("paddings", [[0, 0], [1, 2], [0, 1], [0, 0]], "0110"),
        ("strides", [1, 1], "1"),
        ("strides", [1, 2], "+"),
        ("strides", [1, -1], "-"),
        ("shape", [2, -1], "-"),
        ("shape", [2, 3], "+"),
        ("indices", [2, 3], None),
    ],
)
def test_contents(name: str, values: list[int], found: str | None):
    assert class_of_contents(name, np.array(values, np.int32)) == found
