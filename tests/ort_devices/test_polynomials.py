"""Polynomials that stand for Erf, Gelu and Softplus, and such that are a little off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.ops.lib.approximations import ATANH
from tests.ort_devices.expressions import Expression, differences, operators

ERF = (1.1283798, 1.6442343, -0.0466118, -2.572804, 5.9511676, -6.5038724, 2.9204683)
NORMAL = (1.5957686, 1.1626925, -0.0169221, -0.4526858, 0.5205343, -0.2801111, 0.0606664)
"""Coefficients of (x / 4)**2 in what tanh and sigmoid take, as `ops` has them."""


def polynomial(net: Expression, coefficients: Sequence[float]) -> int:
    """Computes x p((x / 4)**2)."""
    return odd(net, net.x, net.two(spec.MUL, net.x, 0.25), coefficients)


def odd(net: Expression, x: int, part: int, coefficients: Sequence[float]) -> int:
    """Computes x p(part**2)."""
    square = net.two(spec.MUL, part, part)
    total = net.two(spec.MUL, square, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        total = net.two(spec.MUL, net.two(spec.ADD, total, coefficient), square)
    return net.two(spec.MUL, x, net.two(spec.ADD, total, coefficients[0]))


def erf(net: Expression, coefficients: Sequence[float]) -> int:
    return net.one(spec.TANH, polynomial(net, coefficients))


def gelu(net: Expression, coefficients: Sequence[float]) -> int:
    share = net.one(spec.LOGISTIC, polynomial(net, coefficients))
    return net.two(spec.MUL, net.x, share)


def softplus(net: Expression, coefficients: Sequence[float]) -> int:
    power = net.one(spec.EXP, net.one(spec.NEG, net.one(spec.ABS, net.x)))
    share = net.two(spec.DIV, power, net.two(spec.ADD, power, 2.0))
    logarithm = odd(net, share, share, coefficients)
    return net.two(spec.ADD, net.one(spec.RELU, net.x), logarithm)


FUNCTIONS: list[tuple[Callable[[Expression, Sequence[float]], int], Sequence[float], str]] = [
    (erf, ERF, "Erf"),
    (gelu, NORMAL, "Gelu"),
    (softplus, [2 * c for c in ATANH.factor], "Softplus"),
]


@pytest.mark.parametrize(("function", "coefficients", "operator"), FUNCTIONS)
def test_polynomials_that_stand_for_a_function_are_that_function(function, coefficients, operator):
    net = Expression()
    model = net.ends(function(net, coefficients))
    assert operators(model) == {operator: 1}
    for scale in (1, 4, 100):
        assert max(differences(model, scale)) <= 5e-7 * scale


@pytest.mark.parametrize(("function", "coefficients", "operator"), FUNCTIONS)
def test_polynomials_a_little_off_stay_polynomials(function, coefficients, operator):
    """1e-4 in the second coefficient changes the function by some 2e-6."""
    net = Expression()
    first, second, *rest = coefficients
    model = net.ends(function(net, (first, second + 1e-4, *rest)))
    assert operators(model)[operator] == 0


def test_tanh_of_what_is_no_polynomial_stays():
    net = Expression()
    other = net.two(spec.MUL, net.x, net.one(spec.ABS, net.x))
    assert operators(net.ends(net.one(spec.TANH, other)))["Tanh"] == 1


@pytest.mark.parametrize("sums", [500, 5_000])
def test_tanh_of_a_long_sum_stays(sums: int):
    """Deep networks have such chains; the search for a polynomial ends before their beginning."""
    net = Expression()
    factor = net.x
    for _ in range(sums):
        factor = net.two(spec.ADD, factor, 0.5)
    model = net.ends(net.one(spec.TANH, net.two(spec.MUL, net.x, factor)))
    assert operators(model)["Erf"] == 0
    assert operators(model)["Tanh"] == 1


def fast_gelu(
    net: Expression,
    cubic: float = 0.044715,
    slope: float = 0.7978845608,
    half: float = 0.5,
    one: float = 1.0,
    *,
    halved_last: bool = False,
) -> int:
    """Half of x times 1 plus tanh(slope (x + cubic x**3))."""
    cube = net.two(spec.MUL, net.two(spec.MUL, net.x, net.x), net.x)
    inner = net.two(spec.ADD, net.x, net.two(spec.MUL, cube, cubic))
    share = net.two(spec.ADD, net.one(spec.TANH, net.two(spec.MUL, inner, slope)), one)
    if halved_last:
        return net.two(spec.MUL, net.two(spec.MUL, net.x, share), half)
    return net.two(spec.MUL, net.two(spec.MUL, net.x, half), share)


@pytest.mark.parametrize("halved_last", [False, True])
@pytest.mark.parametrize("slope", [0.7978845608, 0.7978846])
def test_gelu_by_the_hyperbolic_tangent_is_one_node(slope, halved_last):
    net = Expression()
    model = net.ends(fast_gelu(net, slope=slope, halved_last=halved_last))
    assert operators(model) == {"FastGelu": 1}
    for scale in (1, 4, 100):
        assert max(differences(model, scale)) <= 5e-7 * scale


@pytest.mark.parametrize(
    "options",
    [{"cubic": 0.0448}, {"slope": 0.797}, {"half": 0.4}, {"one": 2.0}],
    ids=lambda options: next(iter(options)),
)
def test_what_differs_from_that_gelu_is_computed_step_by_step(options):
    net = Expression()
    model = net.ends(fast_gelu(net, **options))
    assert operators(model)["FastGelu"] == 0
    assert max(differences(model)) <= 5e-7


@pytest.mark.parametrize(("factor", "nodes"), [(2.0, 1), (1.0, 0)], ids=["twice", "once"])
def test_that_gelu_by_the_sigmoid_of_twice_the_polynomial_is_one_node(factor, nodes):
    net = Expression()
    cube = net.two(spec.MUL, net.two(spec.MUL, net.x, net.x), net.x)
    inner = net.two(spec.ADD, net.x, net.two(spec.MUL, cube, 0.044715))
    share = net.one(spec.LOGISTIC, net.two(spec.MUL, inner, factor * 0.7978845608))
    model = net.ends(net.two(spec.MUL, net.x, share))
    assert operators(model)["FastGelu"] == nodes
    assert max(differences(model)) <= 5e-7
