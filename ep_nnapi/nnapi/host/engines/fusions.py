"""Groups of operations that one ONNX operator computes: normalization, Gelu and others.

ONNX has operators that NNAPI lacks; models have expressions in their place. The operator gives the
expression's value up to rounding, and up to the error of the polynomial that stands for Erf and
Gelu: at most 3e-7, and 3e-7 |x| for Gelu of numbers beyond 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from math import erf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.polynomial import Polynomial

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.engines.dataflow import Flow, Fusion, Match, Term, term
from ep_nnapi.nnapi.host.engines.gru import gru_layers
from ep_nnapi.nnapi.host.engines.lowering.reduction import IMAGES, mean_of_image
from ep_nnapi.nnapi.host.engines.scope import Inexpressible, Scope, is_coded
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    ADD,
    DEQUANTIZE,
    DIV,
    F16,
    F32,
    FULLY_CONNECTED,
    GATHER,
    I32,
    LESS,
    LOGISTIC,
    MEAN,
    MUL,
    Q8,
    Q8S,
    QUANTIZE,
    RESHAPE,
    RSQRT,
    SELECT,
    SOFTMAX,
    SQRT,
    SUB,
    TANH,
)


def fusions(scope: Scope) -> list[Fusion]:
    """The groups of a model; no operation is in two of them."""
    found, taken = list[Fusion](), set[int]()
    for each in _candidates(scope):
        if taken.isdisjoint(each.members):
            found.append(each)
            taken |= each.members
    return found


def _candidates(scope: Scope) -> Iterator[Fusion]:
    flow = Flow(scope.model)
    yield from gru_layers(scope, flow)
    for n, operation in enumerate(scope.model.operations):
        code = scope.operand(operation.outputs[0]).type
        for finder in _FINDERS.get((operation.spec, code), ()):
            try:
                each = finder(scope, flow, n)
            except Inexpressible:  # a shape is unknown
                continue
            if each is not None:
                yield each


_CENTRED = term(SUB, "x", term(MEAN, "x", "axes", "keep"))
_SQUARE = term(MEAN, term(MUL, _CENTRED, _CENTRED), "inner axes", "inner keep")
_VARIANCE = term(ADD, _SQUARE, "epsilon")
_STANDARDS = (
    term(MUL, _CENTRED, term(RSQRT, _VARIANCE)),
    term(DIV, _CENTRED, term(SQRT, _VARIANCE)),
)
_LAYER_NORM = tuple(term(ADD, term(MUL, each, "scale"), "shift") for each in _STANDARDS)


def _layer_norm(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """LayerNormalization of the last axes, with a scale and a shift of their shape."""
    y = scope.model.operations[n].outputs[0]
    found = _first_match(flow, _LAYER_NORM, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    at, shape = found.operands, scope.shape(found.operands["x"])
    epsilon, axes = flow.number(at["epsilon"]), _axes(scope, at["axes"], len(shape))
    start = len(shape) - len(axes)
    if (
        epsilon is None
        or axes != tuple(range(start, len(shape)))
        or axes != _axes(scope, at["inner axes"], len(shape))
        or not (flow.number(at["keep"]) and flow.number(at["inner keep"]))
        or any(scope.shape(at[name]) != shape[start:] for name in ("scale", "shift"))
    ):
        return None

    def lower(scope: Scope) -> None:
        inputs = [scope.value(at[name], real=True) for name in ("x", "scale", "shift")]
        value = scope.graph.node("LayerNormalization", *inputs, axis=start, epsilon=epsilon)
        scope.define(y, value, real=False)

    return Fusion(found.members, n, lower)


def _first_match(flow: Flow, patterns: Iterable[Term], index: int) -> Match | None:
    """Where operand `index` is what one of the patterns computes."""
    return next(filter(None, (flow.match(pattern, index) for pattern in patterns)), None)


def _axes(scope: Scope, index: int, rank: int) -> tuple[int, ...]:
    """The axes in a constant operand, sorted."""
    if not scope.constant(index):
        return ()
    return tuple(sorted(int(axis) % rank for axis in scope.operand(index).array.reshape(-1)))


_BIASED = term(ADD, term(RESHAPE, term(FULLY_CONNECTED, "x", "weights", "zeros"), "shape"), "bias")


def _biased(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """A constant that is added to a reshaped matrix product, as the product's bias."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(_BIASED, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    at = found.operands
    units, depth = scope.shape(at["weights"])
    if (
        not all(scope.constant(at[name]) for name in ("bias", "zeros"))
        or scope.shape(at["bias"]) != (units,)
        or scope.shape(y)[-1] != units
        or len(scope.shape(at["x"])) != 2
        or scope.shape(at["x"])[1] != depth
        or np.any(scope.operand(at["zeros"]).array)
    ):
        return None

    def lower(scope: Scope) -> None:
        inputs = [scope.value(at[name], real=True) for name in ("x", "weights", "bias")]
        product = scope.graph.node("Gemm", *inputs, transB=1)
        shape = scope.graph.ints(scope.shape(y))
        scope.define(y, scope.graph.node("Reshape", product, shape), real=False)

    return Fusion(found.members, n, lower)


_MEAN = term(QUANTIZE, term(MEAN, term(DEQUANTIZE, "x"), "axes", "keep"))


def _quantized_mean(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The mean of an image's pixels as real numbers, between quantized tensors."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(_MEAN, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    x, rank = found.operands["x"], scope.rank(found.operands["x"])
    axes = _axes(scope, found.operands["axes"], rank)
    if (rank, axes) not in IMAGES or not all(is_coded(scope.operand(i)) for i in (x, y)):
        return None
    scope.shape(y)
    return Fusion(found.members, n, lambda scope: mean_of_image(scope, x, y, axes))


_SOFTMAX = tuple(term(ADD, term(SOFTMAX, "x", "beta", *axis), "zero") for axis in ((), ("axis",)))


def _requantized_softmax(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """A softmax whose scale, which NNAPI fixes, the addition of 0 changes: quantized once."""
    y = scope.model.operations[n].outputs[0]
    found = _first_match(flow, _SOFTMAX, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    x, zero = found.operands["x"], scope.operand(found.operands["zero"])
    axis = flow.number(found.operands["axis"]) if "axis" in found.operands else -1
    if (
        axis is None
        or not -scope.rank(x) <= axis < scope.rank(x)
        or flow.number(found.operands["beta"]) != 1
        or flow.number(found.operands["zero"]) != zero.zero_point
        or scope.shape(x) != scope.shape(y)
    ):
        return None

    def lower(scope: Scope) -> None:
        value = scope.graph.node("Softmax", scope.value(x, real=True), axis=int(axis))
        scope.define(y, scope.quantized(value, scope.operand(y)), real=False)

    return Fusion(found.members, n, lower)


_FROM_THE_END = term(SELECT, term(LESS, "at", "zero"), term(ADD, "at", "size"), "at")
_GATHER = term(GATHER, "x", "axis", _FROM_THE_END)


def _gather(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """Indexes of which those below zero count from the end, as ONNX's Gather has them too."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(_GATHER, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    x, at = found.operands["x"], found.operands["at"]
    shape, axis = scope.shape(x), flow.number(found.operands["axis"])
    if axis is None or not -len(shape) <= axis < len(shape):
        return None
    axis = int(axis) % len(shape)
    if (
        flow.number(found.operands["zero"]) != 0
        or flow.number(found.operands["size"]) != shape[axis]
        or scope.shape(y) != (*shape[:axis], *scope.shape(at), *shape[axis + 1 :])
    ):
        return None

    def lower(scope: Scope) -> None:
        inputs = [scope.value(index, real=False) for index in (x, at)]
        scope.define(y, scope.graph.node("Gather", *inputs, axis=axis), real=False)

    return Fusion(found.members, n, lower)


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


def _erf(scope: Scope, flow: Flow, n: int) -> Fusion | None:
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


def _gelu(scope: Scope, flow: Flow, n: int) -> Fusion | None:
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


_Finder: TypeAlias = Callable[[Scope, Flow, int], Fusion | None]
_OF_FLOATS: dict[OperationSpec, tuple[_Finder, ...]] = {
    ADD: (_layer_norm, _biased),
    MUL: (_gelu,),
    TANH: (_erf,),
}
_FINDERS: dict[tuple[OperationSpec, OperandCode], tuple[_Finder, ...]] = {
    **{(spec, code): each for spec, each in _OF_FLOATS.items() for code in (F32, F16)},
    **{(ADD, code): (_requantized_softmax,) for code in (Q8, Q8S)},
    **{(QUANTIZE, code): (_quantized_mean,) for code in (Q8, Q8S)},
    **{(GATHER, code): (_gather,) for code in (F32, F16, I32, Q8, Q8S)},
}
"""By the last operation and the type of its result."""
