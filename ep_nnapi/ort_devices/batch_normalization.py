"""Scale and shift of an image's channels: one BatchNormalization in a convolution's layout.

Batch normalization that no convolution takes in, such as that of concatenated images, is a product
and a sum in NNAPI. ONNX Runtime's CPU provider computes the operator without leaving the blocked
layout of the convolutions around it, and the activation with it.
"""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import ADD, MUL
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, term
from ep_nnapi.ort_devices.scope import TO_NCHW, Scope

_BLOCK = 16
"""Images of that many channels or a multiple have a blocked layout on every processor."""
_ACTIVATIONS = (FuseCode.NONE, FuseCode.RELU)
_SCALED = tuple(
    term(ADD, term(MUL, "x", "scale"), "shift", activation=activation)
    for activation in _ACTIVATIONS
)


def batch_normalization(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The sum, operation `n`, of a constant for each channel and such a product."""
    y = scope.model.operations[n].outputs[0]
    found = flow.first_match(_SCALED, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    x, scale = sorted((found.operands["x"], found.operands["scale"]), key=scope.constant)
    shift, shape = found.operands["shift"], scope.shape(y)
    sizes = {(*scope.shape(i)[-1:], scope.operand(i).size) for i in (scale, shift)}
    if (
        not (scope.constant(scale) and scope.constant(shift))
        or (len(shape), scope.shape(x)) != (4, shape)
        or shape[-1] % _BLOCK
        or sizes != {(shape[-1], shape[-1])}
    ):
        return None
    relu = flow.activation_is(n, 2, FuseCode.RELU)

    def lower(scope: Scope) -> None:
        layout = TO_NCHW if scope.layout(x) == TO_NCHW else None
        given = scope.value(x, layout, real=True)
        if layout is None:
            product = scope.graph.node("Mul", given, scope.value(scale, real=True))
            value = scope.graph.node("Add", product, scope.value(shift, real=True))
        else:
            value = scope.graph.node(
                "BatchNormalization", given, *_statistics(scope, scale, shift), epsilon=0.0
            )
        if relu:
            value = scope.graph.node("Relu", value)
        scope.define(y, value, layout, real=False)

    return Fusion(found.members, n, lower)


def _statistics(scope: Scope, scale: int, shift: int) -> list[str]:
    """Scale, shift, mean 0 and variance 1 of each channel."""
    scales, shifts = (scope.operand(index).array.reshape(-1) for index in (scale, shift))
    rows = (scales, shifts, np.zeros(scales.size), np.ones(scales.size))
    return [scope.graph.constants.array(row.astype(np.float32)) for row in rows]
