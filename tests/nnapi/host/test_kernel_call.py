"""Calls of kernels: where results go, how they are stored, and wrong shapes."""

from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.concurrent_runs import Run
from ep_nnapi.nnapi.host.kernel import real, stored
from ep_nnapi.nnapi.host.kernel_call import KernelCall
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.spec import F32, Q8
from tests.nnapi.host.named import SCALE, ZERO_POINT, named


def returning(input: Array) -> Array:
    return input * 2


def writing(input: Array, out: Array) -> None:
    np.multiply(input, 2, out=out)


def call(function: Callable[..., object], code: OperandCode, kind: object = real) -> KernelCall:
    op, _ = named(spec.ABS, code, {"input": (2,)}, (2,), {})
    return KernelCall(kind(spec.ABS, function, code), op, {})  # type: ignore[operator]


@pytest.mark.parametrize("function", [returning, writing])
def test_results_are_in_the_array_that_is_given(function: Callable[..., object]) -> None:
    out = np.empty(2, np.float32)
    (found,) = call(function, F32)({0: np.array([1, -3], np.float32)}, [out], Run())
    assert found is out
    assert out.tolist() == [2, -6]


@pytest.mark.parametrize("function", [returning, writing])
def test_quantized_results_are_encoded(function: Callable[..., object]) -> None:
    out, x = np.empty(2, np.uint8), np.array([ZERO_POINT + 4, 255], np.uint8)
    call(function, Q8)({0: x}, [out], Run())
    assert out.tolist() == [ZERO_POINT + 8, 255]  # the second saturates
    assert SCALE == 0.5


def test_a_result_of_unknown_shape_gets_its_own_array() -> None:
    (found,) = call(returning, Q8)({0: np.array([ZERO_POINT], np.uint8)}, [None], Run())
    assert (found.dtype, found.tolist()) == (np.dtype(np.uint8), [ZERO_POINT])


def test_a_result_of_another_shape_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"shape \(2,\) is declared as \(3,\)"):
        call(returning, F32)({0: np.zeros(2, np.float32)}, [np.empty(3, np.float32)], Run())


def test_the_run_is_an_argument_where_the_function_takes_it() -> None:
    seen: list[Run] = []

    def watching(input: Array, run: Run) -> Array:
        seen.append(run)
        return input

    run = Run()
    call(watching, F32, stored)({0: np.zeros(2, np.float32)}, [None], run)
    assert seen == [run]
