"""Reductions and normalizations against numpy in float64."""

from functools import partial

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.cases import each
from tests.nnapi.host import oracle

SEED = 20260805
AXES = {"last": (-1,), "inner": (1, 2), "all": (0, 1, 2, 3), "twice": (1, -3), "none": ()}
REDUCTIONS = {
    "SUM": (spec.REDUCE_SUM, np.sum, oracle.FLOATS),
    "PROD": (spec.REDUCE_PROD, np.prod, oracle.FLOATS),
    "MAX": (spec.REDUCE_MAX, np.max, oracle.DATA),
    "MIN": (spec.REDUCE_MIN, np.min, oracle.DATA),
    "MEAN": (spec.MEAN, np.mean, oracle.DATA),
    "ALL": (spec.REDUCE_ALL, np.all, (oracle.BOOL8,)),
    "ANY": (spec.REDUCE_ANY, np.any, (oracle.BOOL8,)),
}


def drawn(*shape, low=-1.0, high=1.0):
    return np.random.default_rng([SEED, *shape]).uniform(low, high, shape)


@each("axes", AXES.values())
@each("keep", [False, True])
@pytest.mark.parametrize(("row", "function", "types"), REDUCTIONS.values(), ids=REDUCTIONS)
def test_reduction_matches(row, function, types, axes, keep):
    def formula(x, _):
        along = tuple({a % 4 for a in axes})
        found = np.asarray(function(x, axis=along, keepdims=keep))
        return found.reshape(found.shape or (1,))

    numbers = drawn(2, 3, 2, 4)
    given = oracle.store(numbers > 0, oracle.BOOL8) if types == (oracle.BOOL8,) else numbers
    keep_dims = int(keep) if row is spec.MEAN else keep
    oracle.matches(
        row,
        formula,
        types=types,
        same_scale=row is not spec.MEAN,
        input=given,
        axes=oracle.integers(*axes),
        keep_dims=keep_dims,
    )


def test_a_product_with_zero_is_zero_even_with_infinity():
    given = {
        "input": oracle.store(np.array([[0, np.inf, 2], [np.inf, 1, 1]]), oracle.F32),
        "axes": oracle.integers(1),
        "keep_dims": False,
    }
    (result,) = oracle.run(spec.REDUCE_PROD, given, Operand(oracle.F32))
    np.testing.assert_array_equal(result, [0, np.inf])


@pytest.mark.parametrize(
    ("row", "function"),
    [(spec.ARGMAX, np.argmax), (spec.ARGMIN, np.argmin)],
    ids=["ARGMAX", "ARGMIN"],
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_first_extreme_is_found(row, function, axis):
    oracle.matches(
        row,
        lambda x: function(x, axis=axis),
        types=(*oracle.DATA, oracle.I32),
        out=Operand(oracle.I32),
        input=np.round(drawn(3, 5, 4) * 3),
        axis=axis,
    )


def softmax(x, beta=1.0, axis=-1):
    powers = np.exp(beta * (x - x.max(axis=axis, keepdims=True)))
    return powers / powers.sum(axis=axis, keepdims=True)


def direction(x, axis=-1):
    return x / np.sqrt((x**2).sum(axis=axis, keepdims=True))


AT = {None: {}} | {axis: {"axis": axis} for axis in (0, 1, -1, -2)}
WIDE, BETA, BETA_HALF = drawn(2, 3, 5, low=-8, high=8), {"beta": 2.0}, {"beta": 0.5}
NORMALIZED = [
    *((spec.SOFTMAX, WIDE, BETA | AT[a], a, partial(softmax, beta=2.0)) for a in (None, 0, 1, -2)),
    *(
        (
            spec.LOG_SOFTMAX,
            drawn(3, 4, low=-9, high=9),
            BETA_HALF | AT[a],
            a,
            lambda x, axis: np.log(softmax(x, 0.5, axis)),
        )
        for a in (0, -1)
    ),
    *((spec.L2_NORMALIZATION, drawn(2, 3, 4), AT[a], a, direction) for a in (None, 0, 1)),
]


@each(("row", "x", "operands", "axis", "function"), NORMALIZED)
def test_normalizations_along_an_axis_match(row, x, operands, axis, function):
    at = -1 if axis is None else axis
    oracle.matches(row, lambda x: function(x, axis=at), types=oracle.FLOATS, input=x, **operands)


FIXED_SCALES = [
    *(
        (spec.SOFTMAX, Operand(code, (), 1 / 256, zero), drawn(4, 10, low=-5, high=5), softmax)
        for code, zero in ((oracle.Q8, 0), (oracle.Q8S, -128))
    ),
    *(
        (spec.L2_NORMALIZATION, Operand(code, (), 1 / 128, zero), drawn(3, 6), direction)
        for code, zero in ((oracle.Q8, 128), (oracle.Q8S, 0))
    ),
]


@each(("row", "output", "x", "function"), FIXED_SCALES)
def test_quantized_normalizations_match(row, output, x, function):
    source = oracle.store(x, output.type)
    beta = {"beta": 1.0} if row is spec.SOFTMAX else {}
    (result,) = oracle.run(row, {"input": source, **beta}, output)
    oracle.compare(result, output, function(source.real), 0, f"{row} of {output.type.name}")


def test_softmax_refuses_a_beta_of_zero():
    with pytest.raises(RuntimeFailure, match="beta 0 is not positive"):
        oracle.run(
            spec.SOFTMAX,
            {"input": oracle.store(drawn(2, 3), oracle.F32), "beta": 0.0},
            Operand(oracle.F32),
        )


def test_a_vector_of_zeros_keeps_no_direction():
    (result,) = oracle.run(
        spec.L2_NORMALIZATION,
        {"input": oracle.store(np.zeros((2, 3)), oracle.F32)},
        Operand(oracle.F32),
    )
    np.testing.assert_array_equal(result, np.zeros((2, 3)))


@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("radius", [0, 1, 9])
def test_local_response_normalization_matches(radius, axis):
    at = 3 if axis is None else axis

    def formula(x):
        squares, out = np.moveaxis(x**2, at, 0), np.empty_like(np.moveaxis(x, at, 0))
        for i in range(len(squares)):
            near = squares[max(0, i - radius) : i + radius + 1].sum(axis=0)
            out[i] = np.moveaxis(x, at, 0)[i] * (4 + 2 * near) ** -0.5
        return np.moveaxis(out, 0, at)

    oracle.matches(
        spec.LOCAL_RESPONSE_NORMALIZATION,
        formula,
        types=oracle.FLOATS,
        input=drawn(2, 3, 4, 5),
        radius=radius,
        bias=4.0,
        alpha=2.0,
        beta=0.5,
        **({} if axis is None else {"axis": axis}),
    )


@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
def test_instance_normalization_matches(nchw):
    axes = (2, 3) if nchw else (1, 2)

    def formula(x):
        mean, deviation = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
        return 2 * (x - mean) / np.sqrt(deviation + 0.125) + 0.5

    oracle.matches(
        spec.INSTANCE_NORMALIZATION,
        formula,
        types=oracle.FLOATS,
        input=drawn(2, 3, 4, 3),
        gamma=2.0,
        beta=0.5,
        epsilon=0.125,
        layout=nchw,
    )
