"""Quantization parameters of sample operands."""

from __future__ import annotations

from dataclasses import replace

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import ChannelQuantization, Operand
from ep_nnapi.nnapi.signature import OperationSpec

SCALE = 0.5
"""Scale of inputs, weights and outputs: larger than the product of two, which MUL demands."""
ZERO_POINTS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (128, 0, 100),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (0, -128, 100),
}
"""Zero points of samples by type: the usual one first, then the lowest and any other."""
_CHANNEL_DIMS = {"DEPTHWISE_CONV_2D": 3}


def quantized(spec: OperationSpec, name: str, operand: Operand) -> Operand:
    """The operand `name` with quantization parameters that the operation takes."""
    code = operand.type
    if code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        dim = _CHANNEL_DIMS.get(spec.name, 0)
        count = operand.dimensions[dim] if operand.dimensions else 1
        return replace(operand, channels=ChannelQuantization(dim, (SCALE,) * count))
    if not (code.quantized and code.tensor):
        return operand
    scale, zero_point = SCALE, ZERO_POINTS.get(code, (0,))[0]
    fixed = spec.traits.output_quantization
    if name == "output" and fixed is not None and code in ZERO_POINTS:
        signed = code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
        scale, zero_point = fixed[0], fixed[1] - 128 * signed
    return replace(operand, scale=scale, zero_point=zero_point)


def bias_scale(operand: Operand, filter_operand: Operand) -> float:
    """The scale of the bias for quantized data: that of the product, 0 for scales per channel."""
    return 0.0 if filter_operand.channels is not None else operand.scale * filter_operand.scale
