"""Output shapes of a lowering, compared with those that NNAPI infers."""

import numpy as np
import pytest

from ep_nnapi.capability.shape_check import check_shapes, operands_of
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError


def value(name: str, *dims: int) -> Value:
    return Value(name, DType.FLOAT, dims)


def add(a: Value, b: Value, y: Value) -> Call:
    return apply(spec.ADD, a, b, activation=0, out=y)


def test_broadcasting_agrees() -> None:
    check_shapes(add(value("a", 2, 1), value("b", 3), value("y", 2, 3)))


def test_a_scalar_has_one_element() -> None:
    check_shapes(add(value("a"), value("b"), value("y")))


def test_inconsistent_operands_reject_the_node() -> None:
    with pytest.raises(Reject, match="ADD: ") as rejected:
        check_shapes(add(value("a", 2), value("b", 3), value("y", 3)))
    assert rejected.value.reason is Reason.SHAPE


@pytest.mark.parametrize("dims", [(3, 2), (6,), (2, 3, 1)])
def test_another_declared_shape_is_a_defect(dims: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match=r"ADD computes \[2, 3\] for y"):
        check_shapes(add(value("a", 2, 3), value("b", 2, 3), value("y", *dims)))


def test_the_elements_of_a_shape_are_read() -> None:
    shape = Constant.of(np.array([3, 2], np.int32))
    check_shapes(apply(spec.RESHAPE, value("x", 6), shape=shape, out=value("y", 3, 2)))
    with pytest.raises(SpecError, match=r"RESHAPE computes \[3, 2\] for y"):
        check_shapes(apply(spec.RESHAPE, value("x", 6), shape=shape, out=value("y", 2, 3)))


def test_large_constants_are_not_loaded() -> None:
    def load() -> np.ndarray:
        raise AssertionError("loaded")

    weights = Value("w", DType.INT32, (65,), constant=Constant((65,), DType.INT32, load))
    assert "input2" in operands_of(add(value("a", 65), weights, value("y", 65)))
