"""Groups of operations that one ONNX operator computes: normalization, Gelu and others.

ONNX has operators that NNAPI lacks; models have expressions in their place. The operator gives the
expression's value up to rounding, and Erf and Gelu up to the error of the polynomial that stands
for them (`polynomials`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi.codes import FuseCode, OperandCode
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    ADD,
    DEQUANTIZE,
    DIV,
    F16,
    F32,
    FILL,
    FULLY_CONNECTED,
    GATHER,
    I32,
    LESS,
    MEAN,
    MUL,
    Q8,
    Q8S,
    QUANTIZE,
    RESHAPE,
    SELECT,
    SOFTMAX,
    TANH,
)
from ep_nnapi.ort_devices.batch_normalization import batch_normalization
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, term
from ep_nnapi.ort_devices.dynamic_quantization import dynamic_quantization
from ep_nnapi.ort_devices.gru import gru_layers
from ep_nnapi.ort_devices.layer_normalization import layer_norm, rms_norm
from ep_nnapi.ort_devices.lowering.activation import SIXTH
from ep_nnapi.ort_devices.lowering.normalization import unshifted
from ep_nnapi.ort_devices.lowering.reduction import IMAGES, mean_of_image
from ep_nnapi.ort_devices.polynomials import error_function, fast_gelu, gelu, softplus
from ep_nnapi.ort_devices.scope import Inexpressible, Scope, is_coded


def fusions(scope: Scope, *, int8: bool) -> list[Fusion]:
    """The groups of a model, of as many operations as can be; no operation is in two of them.

    int8   quantized weights are int8, see `operation.Kernels`
    """
    found, taken = list[Fusion](), set[int]()
    largest_first = sorted(_candidates(scope, int8=int8), key=lambda each: -len(each.members))
    for each in largest_first:
        if taken.isdisjoint(each.members):
            found.append(each)
            taken |= each.members
    return found


def _candidates(scope: Scope, *, int8: bool) -> Iterator[Fusion]:
    flow = Flow(scope.model)
    yield from gru_layers(scope, flow)
    yield from dynamic_quantization(scope, flow, int8=int8)
    for n, operation in enumerate(scope.model.operations):
        code = scope.operand(operation.outputs[0]).type
        for finder in _FINDERS.get((operation.spec, code), ()):
            try:
                each = finder(scope, flow, n)
            except Inexpressible:  # a shape is unknown
                continue
            if each is not None:
                yield each


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
        scope.define(y, scope.graph.reshape(product, scope.shape(y)), real=False)

    return Fusion(found.members, n, lower)


_SIX_FOLD = term(ADD, "x", "shift", activation=FuseCode.RELU6)
_HARD_SIGMOIDS = (term(MUL, _SIX_FOLD, "sixth"), term(DIV, _SIX_FOLD, "six"))
_EXPECTED = {"sixth": SIXTH, "six": 6}


def _hard_sigmoid(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """A sixth of RELU6(x + shift), which ONNX Runtime fuses into a convolution before it."""
    y = scope.model.operations[n].outputs[0]
    found = flow.first_match(_HARD_SIGMOIDS, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    at = found.operands
    x, constant = sorted((at["x"], at["shift"]), key=scope.constant)
    shift = flow.number(constant)
    factors = [(flow.number(at[name]), number) for name, number in _EXPECTED.items() if name in at]
    if shift is None or scope.shape(x) != scope.shape(y) or any(a != b for a, b in factors):
        return None

    def lower(scope: Scope) -> None:
        perm = scope.layout(x)
        given = scope.value(x, perm, real=True)
        value = scope.graph.node("HardSigmoid", given, alpha=SIXTH, beta=shift / 6)
        scope.define(y, value, perm, real=False)

    return Fusion(found.members, n, lower)


_MEAN = term(QUANTIZE, term(MEAN, term(DEQUANTIZE, "x"), "axes", "keep"))


def _quantized_mean(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The mean of an image's pixels as real numbers, between quantized tensors."""
    y = scope.model.operations[n].outputs[0]
    found = flow.match(_MEAN, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    x, rank = found.operands["x"], scope.rank(found.operands["x"])
    axes = scope.axes(found.operands["axes"], rank)
    if (rank, axes) not in IMAGES or not all(is_coded(scope.operand(i)) for i in (x, y)):
        return None
    scope.shape(y)
    return Fusion(found.members, n, lambda scope: mean_of_image(scope, x, y, axes))


_SOFTMAX = tuple(term(ADD, term(SOFTMAX, "x", "beta", *axis), "zero") for axis in ((), ("axis",)))


def _requantized_softmax(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """A softmax whose scale, which NNAPI fixes, the addition of 0 changes: quantized once."""
    y = scope.model.operations[n].outputs[0]
    found = flow.first_match(_SOFTMAX, y)
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
        value = scope.graph.node("Softmax", unshifted(scope, x), axis=int(axis))
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


_FILLED = term(FILL, "shape", "element")


def _indicator(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The numbers 1 and 0 where a condition holds and where not, which a Cast computes."""
    (condition, *sides), (y,) = scope.model.operations[n].inputs, scope.model.operations[n].outputs
    filled = [flow.match(_FILLED, index) for index in sides]
    numbers = [
        flow.number(found.operands["element"]) if found else _only_number(scope, index)
        for found, index in zip(filled, sides, strict=True)
    ]
    members = frozenset([n]).union(*(found.members for found in filled if found))
    if numbers != [1, 0] or not flow.encloses(members, frozenset([y])):
        return None

    def lower(scope: Scope) -> None:
        perm = scope.layout(condition)
        dtype = TensorProto.INT32 if scope.operand(y).type is I32 else TensorProto.FLOAT
        value = scope.graph.node("Cast", scope.value(condition, perm, real=True), to=dtype)
        scope.define(y, value, perm, real=False)

    return Fusion(members, n, lower)


def _only_number(scope: Scope, index: int) -> float | None:
    """The number that all elements of a constant are; None if they differ."""
    if not scope.constant(index):
        return None
    first, *others = np.unique(scope.operand(index).array)
    return None if others else float(first)


_Finder: TypeAlias = Callable[[Scope, Flow, int], Fusion | None]
_OF_FLOATS: dict[OperationSpec, tuple[_Finder, ...]] = {
    ADD: (layer_norm, _biased, batch_normalization, softplus),
    DIV: (_hard_sigmoid,),
    MUL: (gelu, fast_gelu, rms_norm, _hard_sigmoid),
    TANH: (error_function,),
}
_FINDERS: dict[tuple[OperationSpec, OperandCode], tuple[_Finder, ...]] = {
    **{(spec, code): each for spec, each in _OF_FLOATS.items() for code in (F32, F16)},
    **{(ADD, code): (_requantized_softmax,) for code in (Q8, Q8S)},
    **{(QUANTIZE, code): (_quantized_mean,) for code in (Q8, Q8S)},
    **{(SELECT, code): (_indicator,) for code in (F32, F16, I32)},
    **{(GATHER, code): (_gather,) for code in (F32, F16, I32, Q8, Q8S)},
}
"""By the last operation and the type of its result."""
