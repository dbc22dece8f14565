"""Erf and Gelu, in place of which a model has the hyperbolic tangent or sigmoid of a polynomial.

The operator gives the expression's value up to the error of the polynomial: at most 3e-7, and
3e-7 |x| for Gelu of numbers beyond 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import erf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.polynomial import Polynomial

from ep_nnapi.nnapi.host.engines.dataflow import Flow, Fusion, term
from ep_nnapi.nnapi.host.engines.scope import Scope
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    ADD,
    LOGISTIC,
    MUL,
    SUB,
    TANH,
)

_SAMPLES = np.concatenate([np.linspace(0, 8, 801), np.geomspace(8, 1e4, 50)])
_ERF = np.array([erf(x) for x in _SAMPLES])
_NORMAL = np.array([(1 + erf(x / sqrt(2))) / 2 for x in _SAMPLES])
_MOST_ERROR = 3e-7
_MOST_DEGREE = 32
_ARITHMETIC: dict[OperationSpec, Callable[[Polynomial, Polynomial], Polynomial]] = {
    ADD: operator.add,
    SUB: operator.sub,
    MUL: operator.mul,
}
_Computed: TypeAlias = tuple[Polynomial, frozenset[int]]
"""An operand as a polynomial, and the operations that compute it."""


def error_function(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The hyperbolic tangent of an odd polynomial, where that is the error function."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(term(TANH, term(MUL, "x", "factor")), y)
    if found is None:
        return None
    x, factor = found.operands["x"], found.operands["factor"]
    inside = _polynomial(flow, factor, x, {})
    if inside is None or not _odd(inside[0]):
        return None
    if np.abs(np.tanh(_SAMPLES * inside[0](_SAMPLES)) - _ERF).max() > _MOST_ERROR:
        return None
    return _of_one(scope, flow, n, (found.members | inside[1], x), "Erf")


def gelu(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """Computes x times the sigmoid of an odd polynomial of x, where that is Gelu."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(term(MUL, "x", term(LOGISTIC, term(MUL, "x", "factor"))), y)
    if found is None:
        return None
    x, factor = found.operands["x"], found.operands["factor"]
    inside = _polynomial(flow, factor, x, {})
    if inside is None or not _odd(inside[0]):
        return None
    share = 1 / (1 + np.exp(-np.minimum(_SAMPLES * inside[0](_SAMPLES), 700)))
    if np.abs(_SAMPLES * (share - _NORMAL)).max() > _MOST_ERROR:
        return None
    return _of_one(scope, flow, n, (found.members | inside[1], x), "Gelu")


def _odd(factor: Polynomial) -> bool:
    """True if x times the polynomial of x is odd, and grows: samples above 0 tell all of it."""
    return not np.any(factor.coef[1::2]) and factor.coef[-1] > 0


def _polynomial(
    flow: Flow, index: int, x: int, known: dict[int, _Computed | None]
) -> _Computed | None:
    """Operand `index` as a polynomial of operand `x`; None if it is not one of a low degree."""
    if index == x:
        return Polynomial([0, 1]), frozenset()
    if (number := flow.number(index)) is not None:
        return Polynomial([number]), frozenset()
    if index not in known:
        known[index] = _combined(flow, index, x, known)
    return known[index]


def _combined(
    flow: Flow, index: int, x: int, known: dict[int, _Computed | None]
) -> _Computed | None:
    n = flow.producers.get(index)
    if n is None or flow.model.operations[n].spec not in _ARITHMETIC or not flow.plain(n, 2):
        return None
    operation = flow.model.operations[n]
    first, second = (_polynomial(flow, i, x, known) for i in operation.inputs[:2])
    if first is None or second is None or first[0].degree() + second[0].degree() > _MOST_DEGREE:
        return None
    return _ARITHMETIC[operation.spec](first[0], second[0]), first[1] | second[1] | {n}


def _of_one(
    scope: Scope, flow: Flow, n: int, found: tuple[frozenset[int], int], op_type: str
) -> Fusion | None:
    """The fusion of these members to a function of one operand, unless others need a member."""
    (members, x), y = found, scope.model.operations[n].outputs[0]
    if not flow.encloses(members, frozenset([y])) or scope.shape(x) != scope.shape(y):
        return None

    def lower(scope: Scope) -> None:
        value = scope.graph.node(op_type, scope.value(x, real=True))
        scope.define(y, value, real=False)

    return Fusion(members, n, lower)
