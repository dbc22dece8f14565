"""Tolerances: those of Android's tests, at the limit and just past it."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.profile.tolerance import EXACT, FLOAT16, FLOAT32, STEP, error_of, tolerance
from tests.nnapi.profile.make import Q8, add, tensor, use

IMAGE, BOOLS = tensor(1, 4, 4, 2), tensor(1, 4, 4, 2, code=OperandCode.TENSOR_BOOL8)
HALF = tensor(1, 4, 4, 2, code=OperandCode.TENSOR_FLOAT16)
CODES = tensor(1, 4, 4, 2, code=Q8)


def test_tolerances_by_type() -> None:
    assert tolerance(add(), add().outputs[0].type) == FLOAT32
    assert tolerance(add(relaxed=True), add().outputs[0].type) == FLOAT16
    halves = use("ADD", [HALF, HALF, 0], HALF)
    assert tolerance(halves, HALF.type) == FLOAT16
    assert tolerance(add(), Q8) == STEP
    assert tolerance(add(), BOOLS.type) == EXACT


def wrong(got: object, want: object, relaxed: bool = False, dtype: type = np.float32) -> bool:
    arrays = ([np.array(a, dtype)] for a in (got, want))
    asked = add(relaxed=relaxed)
    if dtype is np.uint8:
        asked = replace(asked, outputs=(CODES,))
    return error_of(asked, *arrays).wrong


@pytest.mark.parametrize(
    ("got", "want", "is_wrong"),
    [
        ([1.00001], [1.0], False),
        ([1.00002], [1.0], True),
        ([100.00005], [100.0], False),
        ([100.0001], [100.0], True),
        ([np.nan], [1.0], True),
        ([1.0], [np.nan], False),
        ([np.inf], [np.inf], False),
        ([np.finfo(np.float32).max], [np.inf], False),  # a fused activation clamps to it
        ([-np.inf], [np.inf], True),
        ([1.0, 2.0], [1.0], True),
    ],
)
def test_float32(got: list[float], want: list[float], is_wrong: bool) -> None:
    assert wrong(got, want) is is_wrong


def test_float16_and_steps() -> None:
    assert not wrong([1.009], [1.0], relaxed=True)
    assert wrong([1.011], [1.0], relaxed=True)
    assert not wrong([7], [8], dtype=np.uint8)
    assert wrong([6], [8], dtype=np.uint8)


def test_the_worst_is_what_is_furthest_beyond_what_is_allowed() -> None:
    found = error_of(add(), [np.float32([1000.005, 1.5])], [np.float32([1000, 1])])
    assert found.error == 0.5
    assert found.allowed == pytest.approx(1.06e-5, rel=1e-2)
