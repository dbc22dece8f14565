"""Quantization with a scale that a run finds, and integer matrix products of what it gives.

NNAPI's scales are constants: models compute the scale in floats and multiply integers stored as
floats. ONNX has DynamicQuantizeLinear, ONNX Runtime MatMulIntegerToFloat; other readers, such as
convolutions, get the integers as floats in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import (
    ADD,
    CAST,
    DEQUANTIZE,
    DIV,
    EQUAL,
    F32,
    FULLY_CONNECTED,
    MAXIMUM,
    MINIMUM,
    MUL,
    Q8,
    QUANTIZE,
    REDUCE_MAX,
    REDUCE_MIN,
    RESHAPE,
    SELECT,
    SUB,
)
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, Match, Term, term
from ep_nnapi.ort_devices.graph import CONTRIB
from ep_nnapi.ort_devices.scope import Inexpressible, Scope

_LOW = term(MINIMUM, term(REDUCE_MIN, "x", "axes", "keep"), "zero")
_HIGH = term(MAXIMUM, term(REDUCE_MAX, "x", "axes", "keep"), "zero")
_SIZE = term(SUB, _HIGH, _LOW)
_SCALE = term(SELECT, term(EQUAL, _SIZE, "zero"), "one", term(DIV, _SIZE, "steps"))
_ZERO_POINT = term(QUANTIZE, term(DIV, term(SUB, "zero", _LOW), "scale"))
_STORED = term(QUANTIZE, term(ADD, term(DIV, "x", "scale"), term(DEQUANTIZE, "zero point")))
_STEPS = 255
_NUMBERS = {"zero": 0, "one": 1, "steps": _STEPS}

_CENTRED = term(SUB, term(DEQUANTIZE, "stored"), term(DEQUANTIZE, "zero point"))


def _products() -> Iterator[Term]:
    """Matrix products of centred integers as real numbers; a reshape may follow any step."""
    for rows in (_CENTRED, term(RESHAPE, _CENTRED, "rows")):
        for reshaped in range(4):
            found = term(FULLY_CONNECTED, rows, "weights", "bias")
            for step in range(3):
                found = term(CAST, found) if step else found
                found = term(RESHAPE, found, "shape") if step == reshaped else found
            yield term(MUL, found, term(MUL, "scale", "step"))


_PRODUCTS = tuple(_products())
_BETWEEN = (RESHAPE, FULLY_CONNECTED, CAST)
"""Operations between the centred integers and the last one of such a product."""


def dynamic_quantization(scope: Scope, flow: Flow, *, int8: bool) -> Iterator[Fusion]:
    """The groups of a model that quantize, each with the products that read it.

    int8   weights are int8, see `operation.Kernels`
    """
    for n, operation in enumerate(scope.model.operations):
        if operation.spec == QUANTIZE:
            try:
                group = _group(scope, flow, n, int8=int8)
            except Inexpressible:  # a shape is unknown
                continue
            if group is not None:
                yield Fusion(group.members, n, group.lower)


@frozen
class _Product:
    """A matrix product that reads quantized numbers, with its bias and activation.

    result     what is computed
    shape      its shape
    reshaped   True if that is not the shape of the numbers but for the last size
    step       scales of the weights, one or one for each column
    zero       the 8-bit number that stands for 0 in the weights
    """

    members: frozenset[int]
    result: int
    shape: tuple[int, ...]
    reshaped: bool
    weights: int
    step: int
    zero: np.int8 | np.uint8
    bias: int | None = None
    activation: FuseCode = FuseCode.NONE

    def lower(self, scope: Scope, stored: str, scale: str, zero_point: str) -> None:
        """Add its nodes; it reads the numbers `stored`."""
        operand, zero = scope.operand(self.weights), self.zero
        weights = scope.weight(
            (id(operand.value), "columns", zero.dtype),
            lambda: (operand.array + float(zero)).astype(zero.dtype).T,
        )
        given = [stored, weights, scale, scope.value(self.step, real=True), zero_point]
        given.append(scope.graph.constants.array(np.array(zero)))
        if self.bias is not None:
            given.append(scope.value(self.bias, real=True))
        value = scope.graph.node("MatMulIntegerToFloat", *given, domain=CONTRIB)
        if self.reshaped:
            value = scope.graph.reshape(value, self.shape)
        if self.activation is FuseCode.RELU:
            value = scope.graph.node("Relu", value)
        scope.define(self.result, value, real=False)


@frozen
class _Group:
    """Numbers quantized over their own range.

    at         operands by name: x, stored, scale and zero point
    read       those of its results that other operations read
    products   those that read the quantized numbers
    centred    the numbers minus their zero point as floats, for other readers
    """

    members: frozenset[int]
    at: Mapping[str, int]
    read: Set[int]
    products: tuple[_Product, ...]
    centred: Set[int]

    def lower(self, scope: Scope) -> None:
        """Add the nodes."""
        x, graph = self.at["x"], scope.graph
        layout = scope.layout(x)
        given = scope.value(x, layout, real=True)
        stored, scale, zero = graph.many("DynamicQuantizeLinear", 3, given)
        scope.define(self.at["stored"], stored, layout, real=False)
        for name, value in (("scale", scale), ("zero point", zero)):
            if self.at[name] in self.read:
                shaped = graph.reshape(value, scope.shape(self.at[name]))
                scope.define(self.at[name], shaped, real=False)
        for product in self.products:
            rows = scope.value(self.at["stored"], real=False)
            product.lower(scope, rows, scale, zero)
        one = graph.constants.array(np.array(1, np.float32))
        for index in sorted(self.centred):
            scope.define(
                index, graph.node("DequantizeLinear", stored, one, zero), layout, real=False
            )


def _group(scope: Scope, flow: Flow, n: int, *, int8: bool) -> _Group | None:
    """The group in which operation `n` quantizes the numbers."""
    found = _quantized(scope, flow, scope.model.operations[n].outputs[0])
    if found is None:
        return None
    at = found.operands
    centred = dict(_centred(flow, found))
    inner = found.members.union(*centred.values())
    for products in (tuple(_products_of(scope, flow, at, centred, int8=int8)), ()):
        members = inner.union(*(each.members for each in products))
        own = frozenset(at[name] for name in ("stored", "scale", "zero point"))
        results = own.union(centred, (each.result for each in products))
        if flow.encloses(members, results):
            read = {i for i in results if not flow.encloses(members, results - {i})}
            return _Group(members, at, read, products, centred.keys() & read)
    return None


def _quantized(scope: Scope, flow: Flow, stored: int) -> Match | None:
    """Where operand `stored` is quantized over the range that the numbers and 0 have."""
    at, members = {"stored": stored}, frozenset[int]()
    for name, pattern in (("stored", _STORED), ("scale", _SCALE), ("zero point", _ZERO_POINT)):
        found = flow.match(pattern, at[name], at)
        if found is None:
            return None
        at, members = {**found.operands}, members | found.members
    x, rank = scope.operand(at["x"]), scope.rank(at["x"])
    if (
        any(flow.number(at[name]) != number for name, number in _NUMBERS.items())
        or not all(_is_whole(scope.operand(at[name])) for name in ("stored", "zero point"))
        or x.type is not F32
        or scope.axes(at["axes"], rank) != tuple(range(rank))
    ):
        return None
    return Match(at, members)


def _is_whole(operand: Operand) -> bool:
    """True for unsigned integers of 8 bits that stand for themselves."""
    return operand.type is Q8 and operand.scale == 1 and operand.zero_point == 0


def _centred(flow: Flow, group: Match) -> Iterator[tuple[int, frozenset[int]]]:
    """Operands that are the quantized numbers minus their zero point, and how they are computed."""
    for n in sorted(flow.readers.get(group.operands["stored"], ())):
        for reader in sorted(flow.readers.get(flow.model.operations[n].outputs[0], ())):
            index = flow.model.operations[reader].outputs[0]
            found = flow.match(_CENTRED, index, group.operands)
            if found is not None:
                yield index, found.members


def _products_of(
    scope: Scope, flow: Flow, at: Mapping[str, int], centred: Iterable[int], *, int8: bool
) -> Iterator[_Product]:
    """The matrix products of operands `centred` and 8-bit weights, as real numbers."""
    for index in centred:
        for n in sorted(flow.readers.get(index, ())):
            product = _product(scope, flow, at, _last(flow, n), int8=int8)
            if product is not None:
                yield product


def _product(
    scope: Scope, flow: Flow, at: Mapping[str, int], y: int, *, int8: bool
) -> _Product | None:
    """The product that operand `y` is, if it is one."""
    found = flow.first_match(_PRODUCTS, y, at)
    if found is None:
        return None
    weights, step, bias = (found.operands[name] for name in ("weights", "step", "bias"))
    units, depth = scope.shape(weights)
    zero, shape = _zero_of(scope, weights, int8=int8), scope.shape(y)
    if (
        zero is None
        or not (scope.constant(step) and scope.constant(bias))
        or scope.shape(step) not in ((1,), (units,))
        or np.any(scope.operand(bias).array)
        or (scope.shape(at["stored"])[-1], shape[-1]) != (depth, units)
    ):
        return None
    reshaped = shape[:-1] != scope.shape(at["stored"])[:-1]
    product = _Product(found.members, y, shape, reshaped, weights, step, zero)
    return _biased(scope, flow, product)


def _last(flow: Flow, n: int) -> int:
    """The result of the operation in which those end that follow operation `n` in a product."""
    (index, *_) = flow.model.operations[n].outputs
    readers = flow.readers.get(index, set())
    if flow.model.operations[n].spec in _BETWEEN and len(readers) == 1:
        return _last(flow, *readers)
    return index


def _zero_of(scope: Scope, weights: int, *, int8: bool) -> np.int8 | np.uint8 | None:
    """The number that stands for 0 when the weights are stored in 8 bits; None if they are not."""
    if not scope.constant(weights):
        return None
    array = scope.operand(weights).array
    low, high = float(array.min()), float(array.max())
    if not -_STEPS <= high - _STEPS <= low <= high <= _STEPS or np.any(array != np.rint(array)):
        return None
    dtype, centre = (np.int8, 0) if int8 else (np.uint8, 128)
    info = np.iinfo(dtype)
    return dtype(max(min(centre, info.max - high), info.min - low))


def _biased(scope: Scope, flow: Flow, product: _Product) -> _Product:
    """The product with the constant that alone reads it by an addition, and the activation."""
    if product.result in flow.model.outputs or len(flow.readers.get(product.result, ())) != 1:
        return product
    (n,) = flow.readers[product.result]
    operation = flow.model.operations[n]
    biases = [index for index in operation.inputs[:2] if index != product.result]
    activations = (FuseCode.NONE, FuseCode.RELU)
    activation = next((each for each in activations if flow.activation_is(n, 2, each)), None)
    (result, *_) = operation.outputs
    if (
        operation.spec != ADD
        or activation is None
        or len(biases) != 1
        or not scope.constant(biases[0])
        or scope.shape(biases[0]) != product.shape[-1:]
        or scope.shape(result) != product.shape
    ):
        return product
    members = product.members | {n}
    return replace(product, members=members, result=result, bias=biases[0], activation=activation)
