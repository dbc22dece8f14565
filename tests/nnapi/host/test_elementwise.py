"""Operations on elements, alone and in pairs, against numpy in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Operand
from tests.cases import each
from tests.nnapi.host.oracle import BOOL8, DATA, FLOATS, I32, Q8S, matches, store

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


TWO = {"input1": drawn(2, 3, 4), "input2": drawn(3, 1)}
# |divisor| >= 0.5: half's error is relative to quotients up to 8
DIVISOR = np.where(drawn(3, 4) > 0, drawn(3, 4, low=0.5), drawn(3, 4, high=-0.5))
# of the range of the second, so that they are equal in 8 bits too
COMPARED = {"input1": np.array([[-1.0, 0, 1], [2, 2, 2]]), "input2": np.array([-1.0, 0, 2])}
BOOLS = {"input1": store([[0, 0], [1, 1]], BOOL8), "input2": store([0, 1], BOOL8)}
INTEGERS = {"input1": store([7, -7, 7, -7, 0], I32), "input2": store([2, 2, -2, -2, 3], I32)}
CONDITION = store([[1, 0, 1], [0, 0, 1]], BOOL8)
SELECTED = {"condition": CONDITION, "input1": drawn(2, 3), "input2": -drawn(2, 3)}
COMPARISONS = {
    spec.EQUAL: np.equal,
    spec.NOT_EQUAL: np.not_equal,
    spec.LESS: np.less,
    spec.LESS_EQUAL: np.less_equal,
    spec.GREATER: np.greater,
    spec.GREATER_EQUAL: np.greater_equal,
}
WHOLE, ONLY_BOOLS = (*DATA, I32), (BOOL8,)
CASES = [
    (spec.DIV, np.divide, FLOATS, {"input1": drawn(2, 3, 4), "input2": DIVISOR, "activation": 0}),
    (spec.DIV, np.floor_divide, (I32,), INTEGERS | {"activation": 0}),
    # as Android validates it
    (
        spec.DIV,
        np.divide,
        (Q8S,),
        {"input1": drawn(12), "input2": drawn(12, low=2.0), "activation": 0},
    ),
    # float32's power is within 4 units in the last place
    (
        spec.POW,
        np.power,
        FLOATS,
        {"base": drawn(2, 3, 1, low=0.5, high=2), "exponent": drawn(4)},
    ),
    (spec.MAXIMUM, np.maximum, WHOLE, TWO),
    (spec.MINIMUM, np.minimum, WHOLE, TWO),
    (spec.LOGICAL_AND, np.logical_and, ONLY_BOOLS, BOOLS),
    (spec.LOGICAL_OR, np.logical_or, ONLY_BOOLS, BOOLS),
    (spec.LOGICAL_NOT, np.logical_not, ONLY_BOOLS, {"input": store([1, 0, 1], BOOL8)}),
    (spec.SELECT, np.where, WHOLE, SELECTED),
    *(
        (
            spec.PRELU,
            lambda x, slope: np.where(x >= 0, x, x * slope),
            DATA,
            {"input": drawn(2, 3, 4), "alpha": drawn(*slopes)},
        )
        for slopes in ((4,), (1, 3, 1), (2, 3, 4))
    ),
    (
        spec.ELU,
        lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x)),
        FLOATS,
        {"input": drawn(30), "alpha": 0.5},
    ),
    *(
        (row, function, FLOATS, {"input": drawn(40, low=0.1, high=9)})
        for row, function in (
            (spec.LOG, np.log),
            (spec.SQRT, np.sqrt),
            (spec.RSQRT, lambda x: 1 / np.sqrt(x)),
        )
    ),
]


@each(("row", "function", "types", "operands"), CASES)
def test_operations_match(row, function, types, operands):
    matches(row, function, types=types, **operands)


@each("row", COMPARISONS)
def test_comparisons_match(row):
    matches(row, COMPARISONS[row], types=WHOLE, out=Operand(BOOL8), **COMPARED)


@each("row", [spec.EQUAL, spec.LESS])
def test_booleans_compare(row):
    matches(row, COMPARISONS[row], types=ONLY_BOOLS, **BOOLS)


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
