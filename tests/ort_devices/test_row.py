"""The table of lowerings: rows by operation and type."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.lowering import find
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row, table


def first(op: Op) -> None:
    """A lowering."""


def second(op: Op) -> None:
    """Another lowering."""


def test_a_row_has_an_entry_for_each_of_its_types():
    assert table(row(spec.RELU, first, F32, Q8), row(spec.RELU, second, Q8S)) == {
        (spec.RELU, F32): first,
        (spec.RELU, Q8): first,
        (spec.RELU, Q8S): second,
    }


def test_a_row_without_types_is_for_operations_of_any_type():
    assert table(row(spec.RANK, first)) == {(spec.RANK, None): first}


def test_two_rows_for_one_type_are_an_error():
    with pytest.raises(ValueError, match="RELU has two lowerings for TENSOR_FLOAT32"):
        table(row(spec.RELU, first, F32), row(spec.RELU, second, Q8, F32))


def test_the_device_finds_the_row_of_the_type():
    assert find(spec.RELU, F32) is not None
    assert find(spec.RELU, Q8) is not None
    assert find(spec.RANDOM_MULTINOMIAL, F32) is None
