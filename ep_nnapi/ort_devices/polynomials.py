"""Erf, Gelu and Softplus, in place of which a model has functions of a polynomial.

The operator gives the expression's value up to the error of the polynomial: at most 3e-7, and
3e-7 |x| for Gelu of numbers beyond 1. Gelu's usual approximation by the hyperbolic tangent of a
cubic polynomial is an operator of its own, FastGelu.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    ABS,
    ADD,
    DIV,
    EXP,
    LOGISTIC,
    MUL,
    NEG,
    RELU,
    SUB,
    TANH,
)
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, Term, term
from ep_nnapi.ort_devices.graph import CONTRIB
from ep_nnapi.ort_devices.scope import Scope

_SAMPLES = np.concatenate([np.linspace(0, 8, 801), np.geomspace(8, 1e4, 50)])
_ERF = np.array([erf(x) for x in _SAMPLES])
_NORMAL = np.array([(1 + erf(x / sqrt(2))) / 2 for x in _SAMPLES])
_MOST_ERROR = 3e-7
_MOST_DEGREE = 32
_MOST_OPERATIONS = 2 * _MOST_DEGREE
"""Most operations of a polynomial: as many as Horner's rule takes. Networks have longer chains."""


def _sum(a: Array, b: Array) -> Array:
    total = np.zeros(max(len(a), len(b)))
    total[: len(a)] = a
    total[: len(b)] += b
    return total


_ARITHMETIC: dict[OperationSpec, Callable[[Array, Array], Array]] = {
    ADD: _sum,
    SUB: lambda a, b: _sum(a, -b),
    MUL: np.convolve,
}
"""Of polynomials' coefficients, the constant first: numpy's class takes ten times as long."""
_ODD = term(MUL, "x", "factor")
_SHARE = term(ADD, term(TANH, "inner"), "one")
_SOFTPLUS = term(ADD, term(RELU, "x"), term(MUL, "share", "factor"))
_POWER = term(EXP, term(NEG, term(ABS, "x")))
_SHARE_OF_POWER = term(DIV, _POWER, term(ADD, _POWER, "two"))
_FAST_GELUS = (
    term(MUL, term(MUL, "x", "half"), _SHARE),
    term(MUL, term(MUL, "x", _SHARE), "half"),
)
_CUBIC = sqrt(2 / pi) * np.array([0, 1, 0, 0.044715])
"""The polynomial of FastGelu."""


@frozen
class _OfOdd:
    """A function of an odd polynomial of operand `x`.

    values    of the polynomial at samples
    members   the operations that compute both
    """

    x: int
    values: Array
    members: frozenset[int]


_Computed: TypeAlias = tuple[Array, frozenset[int]]
"""An operand as a polynomial's coefficients, and the operations that compute it."""


def error_function(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The hyperbolic tangent of an odd polynomial, where that is the error function."""
    y = scope.model.operations[n].outputs[0]
    found = _of_odd(flow, term(TANH, _ODD), y)
    if found is None or np.abs(np.tanh(found.values) - _ERF).max() > _MOST_ERROR:
        return None
    return _of_one(scope, flow, n, found, "Erf")


def gelu(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """Computes x times the sigmoid of an odd polynomial of x, where that is Gelu."""
    y = scope.model.operations[n].outputs[0]
    found = _of_odd(flow, term(MUL, "x", term(LOGISTIC, _ODD)), y)
    if found is None:
        return None
    share = 1 / (1 + np.exp(-np.minimum(found.values, 700)))
    if np.abs(_SAMPLES * (share - _NORMAL)).max() > _MOST_ERROR:
        return None
    return _of_one(scope, flow, n, found, "Gelu")


def fast_gelu(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """Half of x times 1 plus the hyperbolic tangent of a cubic polynomial of x.

    That is x times the sigmoid of twice the polynomial.
    """
    y = scope.model.operations[n].outputs[0]
    if found := flow.first_match(_FAST_GELUS, y):
        x, half = sorted((found.operands["x"], found.operands["half"]), key=scope.constant)
        if (flow.number(half), flow.number(found.operands["one"])) != (0.5, 1):
            return None
        expected = _CUBIC
    elif found := flow.match(term(MUL, "x", term(LOGISTIC, "inner")), y):
        x, expected = found.operands["x"], 2 * _CUBIC
    else:
        return None
    inner = _polynomial(flow, found.operands["inner"], x, {})
    if inner is None or len(inner[0]) != len(expected):
        return None
    if not np.allclose(inner[0], expected, rtol=_MOST_ERROR, atol=0):
        return None
    fused = _OfOdd(x, inner[0], found.members | inner[1])
    return _of_one(scope, flow, n, fused, "FastGelu", CONTRIB)


def softplus(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """RELU(x) plus s times a polynomial, s = t / (t + 2), t = e^-|x|, where that is Softplus."""
    y = scope.model.operations[n].outputs[0]
    if (found := flow.match(_SOFTPLUS, y)) is None:
        return None
    share = found.operands["share"]
    inner = flow.match(_SHARE_OF_POWER, share, found.operands)
    if inner is None or flow.number(inner.operands["two"]) != 2:
        return None
    factor = _polynomial(flow, found.operands["factor"], share, {})
    shares = np.linspace(0, 1 / 3, 101)
    if factor is None:
        return None
    errors = shares * np.polyval(factor[0][::-1], shares) - 2 * np.arctanh(shares)
    if np.abs(errors).max() > _MOST_ERROR:
        return None
    members = found.members | inner.members | factor[1]
    return _of_one(scope, flow, n, _OfOdd(inner.operands["x"], shares, members), "Softplus")


def _of_odd(flow: Flow, pattern: Term, index: int) -> _OfOdd | None:
    """Where operand `index` is a pattern with `_ODD`, an odd polynomial that grows."""
    found = flow.match(pattern, index)
    if found is None:
        return None
    x = found.operands["x"]
    factor = _polynomial(flow, found.operands["factor"], x, {})
    # x times an even polynomial is odd: samples above 0 tell all of it
    if factor is None or np.any(factor[0][1::2]) or factor[0][-1] <= 0:
        return None
    return _OfOdd(x, _SAMPLES * np.polyval(factor[0][::-1], _SAMPLES), found.members | factor[1])


def _polynomial(
    flow: Flow, index: int, x: int, known: dict[int, _Computed | None]
) -> _Computed | None:
    """Operand `index` as a polynomial of operand `x`; None if it is not one of a low degree."""
    if index == x:
        return np.array([0.0, 1.0]), frozenset()
    if (number := flow.number(index)) is not None:
        return np.array([number]), frozenset()
    if index not in known:
        if len(known) == _MOST_OPERATIONS:
            return None
        known[index] = None  # counted before the operands are visited
        known[index] = _combined(flow, index, x, known)
    return known[index]


def _combined(
    flow: Flow, index: int, x: int, known: dict[int, _Computed | None]
) -> _Computed | None:
    n = flow.producers.get(index)
    if (
        n is None
        or flow.model.operations[n].spec not in _ARITHMETIC
        or not flow.activation_is(n, 2, FuseCode.NONE)
    ):
        return None
    operation = flow.model.operations[n]
    first, second = (_polynomial(flow, i, x, known) for i in operation.inputs[:2])
    if first is None or second is None or len(first[0]) + len(second[0]) > _MOST_DEGREE + 2:
        return None
    computed = _ARITHMETIC[operation.spec](first[0], second[0])
    degree = int(np.flatnonzero(computed)[-1:].sum())
    return computed[: degree + 1], first[1] | second[1] | {n}


def _of_one(
    scope: Scope, flow: Flow, n: int, found: _OfOdd, op_type: str, domain: str = ""
) -> Fusion | None:
    """The fusion to a function of one operand, unless others need what is inside."""
    x, y = found.x, scope.model.operations[n].outputs[0]
    if not flow.encloses(found.members, frozenset([y])) or scope.shape(x) != scope.shape(y):
        return None

    def lower(scope: Scope) -> None:
        perm = scope.layout(x)
        value = scope.graph.node(op_type, scope.value(x, perm, real=True), domain=domain)
        scope.define(y, value, perm, real=False)

    return Fusion(found.members, n, lower)
