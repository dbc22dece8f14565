"""Numbers at the ends of float32: results follow IEEE 754, and nothing is printed about them."""

import warnings

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.build import one
from tests.nnapi.host.oracle import F32, REFERENCE, RUNTIME
from tests.ort_devices.networks import Network

NUMBERS = np.array([3e38, -3e38, 0, np.inf, -np.inf, np.nan, 1e-45, 1], np.float32)
TWO = {
    spec.ADD: np.add,
    spec.SUB: np.subtract,
    spec.MUL: np.multiply,
    spec.DIV: np.divide,
    spec.POW: np.power,
    spec.MAXIMUM: np.maximum,
}
ONE = {spec.EXP: np.exp, spec.LOG: np.log, spec.SQRT: np.sqrt, spec.SIN: np.sin}
ACTIVATED = {spec.ADD, spec.SUB, spec.MUL, spec.DIV}


def rounded(numbers):
    """Numbers as relaxed computation keeps them."""
    return numbers.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("row", [*TWO, *ONE], ids=str)
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_run_warns_of_nothing(row, relaxed):
    x = Operand(F32, NUMBERS.shape)
    given = [x, *[NUMBERS[::-1].copy()] * (row in TWO), *[0] * (row in ACTIVATED)]
    model = one(row, given, [x], relaxed=relaxed)
    with np.errstate(all="ignore"):
        seen = rounded(NUMBERS) if relaxed else NUMBERS
        want = TWO[row](seen, seen[::-1]) if row in TWO else ONE[row](seen)
        want = rounded(want) if relaxed else want
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (got,) = RUNTIME.compile(model, REFERENCE).run((NUMBERS,))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_constants_are_folded_without_a_warning():
    """3e38 times itself, and what that is without the rest."""
    net = Network(x := Operand(F32, NUMBERS.shape))
    product = net.operation(spec.MUL, [NUMBERS, NUMBERS[::-1].copy(), 0], x)
    model = net.model(net.operation(spec.ADD, [product, *net.inputs, 0], x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (got,) = RUNTIME.compile(model, REFERENCE).run((np.zeros_like(NUMBERS),))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, NUMBERS * NUMBERS[::-1])
