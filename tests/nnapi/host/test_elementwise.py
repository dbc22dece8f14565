"""Operations on elements, alone and in pairs, against numpy in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.oracle import BOOL8, DATA, F16, F32, FLOATS, I32, Q8S, matches, store

SEED = 20260801
SHAPES = {
    "same": ((2, 3, 4), (2, 3, 4)),
    "channels": ((2, 3, 4), (4,)),
    "rank": ((4,), (2, 1, 1, 4)),
    "both": ((3, 1), (1, 5)),
    "one": ((2, 3), (1,)),
    "none": ((0, 3), (1, 3)),
}
CLIPS = {
    FuseCode.NONE: (-np.inf, np.inf),
    FuseCode.RELU: (0, np.inf),
    FuseCode.RELU1: (-1, 1),
    FuseCode.RELU6: (0, 6),
}


def drawn(*shape, low=-4.0, high=4.0):
    return np.random.default_rng([SEED, *shape]).uniform(low, high, shape)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("row", "function"),
    [(spec.ADD, np.add), (spec.SUB, np.subtract), (spec.MUL, np.multiply)],
    ids=str,
)
def test_arithmetic_matches(row, function, shapes):
    a, b = (drawn(*s) for s in shapes)
    matches(row, function, input1=a, input2=b, activation=0)


@pytest.mark.parametrize("activation", CLIPS)
def test_activation_clips_the_sum(activation):
    def formula(a, b):
        return np.clip(a + b, *CLIPS[activation])

    matches(
        spec.ADD,
        formula,
        input1=drawn(5, 7),
        input2=drawn(7),
        activation=int(activation),
        types=(*DATA, I32),
    )


def test_division_matches():
    # |divisor| >= 0.5: half's error is relative to quotients up to 8
    divisor = np.where(drawn(3, 4) > 0, drawn(3, 4, low=0.5), drawn(3, 4, high=-0.5))
    matches(
        spec.DIV, np.divide, input1=drawn(2, 3, 4), input2=divisor, activation=0, types=(F32, F16)
    )


def test_integer_division_rounds_down():
    matches(
        spec.DIV,
        np.floor_divide,
        input1=store([7, -7, 7, -7, 0], I32),
        input2=store([2, 2, -2, -2, 3], I32),
        activation=0,
        types=(I32,),
    )


def test_power_matches():
    # float32's power is within 4 units in the last place
    matches(
        spec.POW, np.power, base=drawn(2, 3, 1, low=0.5, high=2), exponent=drawn(4), types=FLOATS
    )


@pytest.mark.parametrize(
    ("row", "function"), [(spec.MAXIMUM, np.maximum), (spec.MINIMUM, np.minimum)], ids=str
)
def test_extremes_match(row, function):
    matches(row, function, input1=drawn(2, 3, 4), input2=drawn(3, 1), types=(*DATA, I32))


@pytest.mark.parametrize(
    ("row", "function"),
    [
        (spec.EQUAL, np.equal),
        (spec.NOT_EQUAL, np.not_equal),
        (spec.LESS, np.less),
        (spec.LESS_EQUAL, np.less_equal),
        (spec.GREATER, np.greater),
        (spec.GREATER_EQUAL, np.greater_equal),
    ],
    ids=str,
)
def test_comparisons_match(row, function):
    numbers = np.array([[-1.0, 0, 1], [2, 2, 2]])  # of input2's range, so equal in 8 bits too
    matches(
        row,
        function,
        input1=numbers,
        input2=np.array([-1.0, 0, 2]),
        out=Operand(BOOL8),
        types=(*DATA, I32),
    )


def test_booleans_compare():
    a, b = store([0, 0, 1, 1], BOOL8), store([0, 1, 0, 1], BOOL8)
    for row, function in ((spec.EQUAL, np.equal), (spec.LESS, np.less)):
        matches(row, function, input1=a, input2=b, types=(BOOL8,))


@pytest.mark.parametrize(
    ("row", "function"),
    [(spec.LOGICAL_AND, np.logical_and), (spec.LOGICAL_OR, np.logical_or)],
    ids=str,
)
def test_logic_matches(row, function):
    a, b = store([[0, 0], [1, 1]], BOOL8), store([0, 1], BOOL8)
    matches(row, function, input1=a, input2=b, types=(BOOL8,))


def test_logical_not_matches():
    matches(spec.LOGICAL_NOT, np.logical_not, types=(BOOL8,), input=store([1, 0, 1], BOOL8))


@pytest.mark.parametrize("slopes", [(4,), (1, 3, 1), (2, 3, 4)], ids=str)
def test_prelu_matches(slopes):
    matches(
        spec.PRELU,
        lambda x, slope: np.where(x >= 0, x, x * slope),
        input=drawn(2, 3, 4),
        alpha=drawn(*slopes),
    )


def test_select_takes_the_first_where_the_condition_holds():
    matches(
        spec.SELECT,
        np.where,
        condition=store([[1, 0, 1], [0, 0, 1]], BOOL8),
        input1=drawn(2, 3),
        input2=-drawn(2, 3),
        types=(*DATA, I32),
    )


UNARY = {
    "ABS": (spec.ABS, np.abs, (*FLOATS, I32)),
    "EXP": (spec.EXP, np.exp, FLOATS),
    "FLOOR": (spec.FLOOR, np.floor, FLOATS),
    "HARD_SWISH": (spec.HARD_SWISH, lambda x: x * np.clip(x + 3, 0, 6) / 6, DATA),
    "LOGISTIC": (spec.LOGISTIC, lambda x: 1 / (1 + np.exp(-x)), DATA),
    "NEG": (spec.NEG, np.negative, (*FLOATS, I32)),
    "RELU": (spec.RELU, lambda x: np.maximum(x, 0), DATA),
    "RELU1": (spec.RELU1, lambda x: np.clip(x, -1, 1), DATA),
    "RELU6": (spec.RELU6, lambda x: np.clip(x, 0, 6), DATA),
    "SIN": (spec.SIN, np.sin, FLOATS),
    "TANH": (spec.TANH, np.tanh, DATA),
}


@pytest.mark.parametrize(("row", "function", "types"), UNARY.values(), ids=UNARY)
@pytest.mark.parametrize("shape", [(3, 5, 2), (0, 4)], ids=str)
def test_unary_matches(row, function, types, shape):
    matches(row, function, types=types, input=drawn(*shape, low=-9, high=9))


@pytest.mark.parametrize(
    ("row", "function", "types"),
    [
        (spec.LOG, np.log, FLOATS),
        (spec.SQRT, np.sqrt, FLOATS),
        (spec.RSQRT, lambda x: 1 / np.sqrt(x), FLOATS),
    ],
    ids=["log", "sqrt", "rsqrt"],
)
def test_functions_of_positive_numbers_match(row, function, types):
    matches(row, function, types=types, input=drawn(40, low=0.1, high=9))


def test_elu_bends_below_zero():
    matches(
        spec.ELU,
        lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x)),
        input=drawn(30),
        alpha=0.5,
        types=FLOATS,
    )


def test_signed_division_is_as_android_validates_it():
    matches(
        spec.DIV, np.divide, input1=drawn(12), input2=drawn(12, low=2.0), activation=0, types=(Q8S,)
    )
