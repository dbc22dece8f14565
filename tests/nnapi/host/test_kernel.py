"""Rows of the kernel table: types, parameters, duplicates."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import (
    Types,
    elementwise,
    pointwise,
    real,
    stored,
    table,
    view,
)
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.operands import parameters_of
from ep_nnapi.nnapi.spec import F32, I32


def add(input1: np.ndarray, input2: np.ndarray, activation: int = 0, **more: object) -> None:
    """A function with the parameters of a kernel."""


def test_parameters_are_required_unless_they_have_a_default() -> None:
    kernel = stored(spec.ADD, add, I32)
    assert parameters_of(add).names == {"input1", "input2", "activation"}
    assert kernel.required == {"input1", "input2"}
    assert kernel.special_parameters == frozenset()
    written = stored(spec.ADD, lambda input1, out, types, run: None, I32)
    assert written.special_parameters == {"out", "types", "run"}


@pytest.mark.parametrize(
    ("kind", "traits"),
    [
        (real, (True, False, False, False)),
        (elementwise, (True, True, False, False)),
        (pointwise, (True, True, True, False)),
        (stored, (False, False, False, False)),
        (view, (False, False, False, True)),
    ],
)
def test_kinds_of_rows(kind: object, traits: tuple[bool, ...]) -> None:
    made = kind(spec.ADD, add)  # type: ignore[operator]
    assert (made.real, made.elementwise, made.pointwise, made.view) == traits


def test_a_table_has_each_pair_of_operation_and_type_once() -> None:
    of_floats, of_integers = real(spec.ADD, add, F32), stored(spec.ADD, add, I32)
    found = table(of_floats, of_integers, view(spec.RESHAPE, add))
    assert found[spec.ADD, F32] is of_floats
    assert found[spec.ADD, I32] is of_integers
    assert (spec.RESHAPE, None) in found
    with pytest.raises(ValueError, match="two kernels"):
        table(of_floats, real(spec.ADD, add, F32, I32))


def test_types_by_name() -> None:
    one, two = Operand(F32, (1,)), Operand(F32, (2,))
    types = Types({"input": (one,), "inputs": (one, two)})
    assert types["input"] is one
    assert types.many("inputs") == (one, two)
    assert "input" in types
    assert "bias" not in types
    with pytest.raises(ValueError, match="too many values"):
        types["inputs"]
