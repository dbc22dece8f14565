"""Rules of Android's kernels that no validation knows: a run fails or its numbers are wrong.

Source: Android 13, packages/modules/NeuralNetworks/common/operations, `prepare` and `execute`. The
rules about shapes are not here: nnapi-reference refuses what breaks those.
"""

from collections.abc import Callable, Iterator

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.profile.form import OperationUse, uses

_SIGNED = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
_QUANTIZED = (OperandCode.TENSOR_QUANT8_ASYMM, _SIGNED)
_NEAR = 1e-6
"""Largest relative difference of a bias scale from the product of the other scales."""
_INTEGER_BITS = {"LOGISTIC": 4, "TANH": 4, "SOFTMAX": 5}


def violations(model: Model) -> list[str]:
    """One sentence for each rule that an operation of the model breaks."""
    return [f"{use.spec.name}: {found}" for use in uses(model) for found in _broken(use)]


def _broken(use: OperationUse) -> Iterator[str]:
    named = {p.name: o for p, o in use.named_inputs}
    first, output = use.inputs[0], use.outputs[0]
    integers = first.type is OperandCode.TENSOR_INT32
    if integers and "activation" in named and named["activation"].array.item():
        yield "integers take no fused activation"
    if use.spec.name == "SOFTMAX" and not named["beta"].array.item() > 0:
        yield "beta is not positive"
    if first.type not in _QUANTIZED:
        return
    if use.spec.name == "DIV":
        yield f"Android has no kernel of {first.type.name}"
    for rule in _OF_QUANTIZED:
        yield from rule(use, named)
    wanted = use.spec.traits.output_quantization
    if use.spec.traits.keeps_quantization:
        if (_scale(first), first.zero_point) != (_scale(output), output.zero_point):
            yield "the output's quantization is not that of the input"
    elif wanted is not None:
        scale, zero_point = wanted
        zero_point -= 128 if output.type is _SIGNED else 0
        if (scale, zero_point) != (_scale(output), output.zero_point):
            yield f"the output's quantization is not {scale} from {zero_point}"


def _bias(use: OperationUse, named: dict[str, Operand]) -> Iterator[str]:
    weights, bias = named.get("filter", named.get("weights")), named.get("bias")
    if weights is None or bias is None:
        return
    if bias.zero_point:
        yield "the bias has a zero point"
    if weights.channels is None:
        product = float(_scale(use.inputs[0]) * _scale(weights))
        if abs(product - bias.scale) > _NEAR * min(product, bias.scale):
            yield f"the bias scale is {bias.scale}, the product of the others {product}"


def _sum(use: OperationUse, named: dict[str, Operand]) -> Iterator[str]:
    """ADD and SUB scale sums of 20 more bits to the output."""
    if use.spec.name in ("ADD", "SUB"):
        twice = 2 * max(float(_scale(named[f"input{i}"])) for i in (1, 2))
        if not twice < 2**20 * float(_scale(use.outputs[0])):
            yield "the output scale is too small for the inputs' scales"


def _fixed_point(use: OperationUse, named: dict[str, Operand]) -> Iterator[str]:
    """Functions of a fixed-point number with some integer bits."""
    bits = _INTEGER_BITS.get(use.spec.name)
    if bits is not None and not float(_scale(named["input"])) * 2 ** (31 - bits) > 1:
        yield "the input scale is too small"


_OF_QUANTIZED: tuple[Callable[[OperationUse, dict[str, Operand]], Iterator[str]], ...] = (
    _bias,
    _sum,
    _fixed_point,
)


def _scale(operand: Operand) -> np.float32:
    return np.float32(operand.scale)
