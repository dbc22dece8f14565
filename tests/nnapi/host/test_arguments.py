"""Arguments of kernels: constants once, others at each run, decoded and packed."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, real, stored
from ep_nnapi.nnapi.host.kernel_call import Arguments
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.spec import F32, Q8
from tests.nnapi.host.named import SCALE, ZERO_POINT, named

SHAPES = {"input1": (2,), "input2": (2,)}


def add(input1: Array, input2: Array, activation: int) -> Array:
    return input1 + input2


def test_scalars_and_decoded_tensors() -> None:
    op, index = named(spec.ADD, Q8, SHAPES, (2,), {"activation": 0})
    arguments = Arguments(real(spec.ADD, add, Q8), op, {})
    values = {
        index["input1"]: np.array([100, 102], np.uint8),
        index["input2"]: np.array([98, 255], np.uint8),
        index["activation"]: np.array(1, np.int32),
    }
    given = arguments.of(values)
    assert given["activation"] == 1
    assert isinstance(given["activation"], int)
    np.testing.assert_array_equal(given["input1"], [0, 1])
    np.testing.assert_array_equal(given["input2"], [-1, (255 - ZERO_POINT) * SCALE])
    assert arguments.coded.keys() == {"input1", "input2"}
    assert arguments.stored(values)["input1"] is values[index["input1"]]


def test_elements_as_stored_are_not_decoded() -> None:
    op, index = named(spec.ADD, Q8, SHAPES, (2,), {"activation": 0})
    arguments = Arguments(stored(spec.ADD, add, Q8), op, {index["activation"]: np.array(0)})
    values = {index[n]: np.array([7, 9], np.uint8) for n in SHAPES}
    assert arguments.of(values)["input1"] is values[index["input1"]]
    assert arguments.coded == {}


def test_constants_are_packed_once_and_others_at_each_run() -> None:
    packed: list[str] = []

    def doubled(input2: Array, types: Types) -> Array:
        packed.append("input2")
        assert types["input2"].dimensions == (2,)
        return 2 * input2

    op, index = named(spec.ADD, F32, SHAPES, (2,), {"activation": 0})
    kernel = real(spec.ADD, add, F32, input2=doubled)
    one, two = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    activation = {index["activation"]: np.array(0)}

    fixed = Arguments(kernel, op, {index["input2"]: two, **activation})
    assert packed == ["input2"]
    for _ in range(2):
        np.testing.assert_array_equal(fixed.of({index["input1"]: one})["input2"], [6, 8])
    assert packed == ["input2"]

    open_ = Arguments(kernel, op, activation)
    assert packed == ["input2"]
    for factor in (1, 5):
        values = {index["input1"]: one, index["input2"]: factor * two}
        np.testing.assert_array_equal(open_.of(values)["input2"], factor * np.array([6, 8]))
    assert packed == ["input2"] * 3


def test_a_missing_value_is_an_error_only_where_it_is_required() -> None:
    def optional(input1: Array, activation: int, input2: Array | None = None) -> Array:
        return input1

    op, index = named(spec.ADD, F32, SHAPES, (2,), {"activation": 0})
    constants = {index["activation"]: np.array(0)}
    values = {index["input1"]: np.zeros(2, np.float32), index["input2"]: None}
    assert "input2" not in Arguments(real(spec.ADD, optional), op, constants).of(values)
    with pytest.raises(ShapeError, match="operand input2 is missing"):
        Arguments(real(spec.ADD, add), op, constants).of(values)
