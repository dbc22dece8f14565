"""Single operands: the type for a value, validation of shape, quantization parameters and value."""

from __future__ import annotations

from collections.abc import Mapping

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import Data, Model, Operand

UNKNOWN_RANK_LEVEL = 3
"""Feature level that introduced tensors of unknown rank."""

MAX_BYTES = 2**32 - 1
"""Largest operand, in bytes: lengths are 32-bit in the NDK."""

ZERO_POINTS: Mapping[OperandCode, range] = {
    OperandCode.TENSOR_QUANT8_ASYMM: range(256),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: range(-128, 128),
    OperandCode.TENSOR_QUANT16_ASYMM: range(65536),
}
"""Legal zero points by type; other types have none."""


def check_operand(index: int, operand: Operand, feature_level: int) -> int:
    """Return the feature level `operand` needs; raise SpecError if illegal at `feature_level`.

    Source: NeuralNetworksTypes.h, OperandCode and ANeuralNetworksOperandType.
    """
    level = operand.type.level
    if operand.type.tensor and not operand.dimensions:
        level = max(level, UNKNOWN_RANK_LEVEL)
    if level > feature_level:
        named = describe(operand, index)
        raise SpecError(f"{named} needs feature level {level}, the target has {feature_level}")
    check_type(operand, index)
    _check_value(operand, index)
    return level


def check_type(operand: Operand, index: int | None = None) -> None:
    """Raise SpecError unless dimensions, scale and zero point are legal for the type.

    Dimensions may be unknown. Source: NeuralNetworks.h, ANeuralNetworksModel_addOperand.
    """
    _check_shape(operand, index)
    _check_scale(operand, index)
    zero_points = ZERO_POINTS.get(operand.type, range(1))
    if operand.zero_point not in zero_points:
        takes = f"{zero_points[0]} to {zero_points[-1]}" if len(zero_points) > 1 else "0"
        raise SpecError(
            f"{describe(operand, index)} has zero point {operand.zero_point}, it takes {takes}"
        )


def describe(operand: Operand, index: int | None = None) -> str:
    """Type and shape: "TENSOR_FLOAT32 [1, 0, 4]", unknown rank as "[?]"; after an index, if any."""
    if index is not None:
        return f"operand {index} ({describe(operand)})"
    if not operand.type.tensor:
        return operand.type.name
    return f"{operand.type.name} {list(operand.dimensions) or '[?]'}"


def _check_shape(operand: Operand, index: int | None) -> None:
    if not operand.type.tensor:
        if operand.dimensions:
            raise SpecError(
                f"{describe(operand, index)} is a scalar with dimensions {list(operand.dimensions)}"
            )
        return
    size = operand.type.numpy.itemsize
    for dim in operand.dimensions:
        if dim < 0:
            raise SpecError(f"{describe(operand, index)} has a negative dimension")
        size *= dim or 1
    if size > MAX_BYTES:
        raise SpecError(f"{describe(operand, index)} takes more than {MAX_BYTES} bytes")


def _check_scale(operand: Operand, index: int | None) -> None:
    scale, code = operand.scale, operand.type
    if code is OperandCode.TENSOR_INT32:
        if not scale >= 0:
            raise SpecError(
                f"{describe(operand, index)} has scale {scale:g}, it takes a scale >= 0"
            )
    elif code.quantized and code is not OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        if not scale > 0:
            raise SpecError(f"{describe(operand, index)} has scale {scale:g}, it takes a scale > 0")
    elif scale != 0:
        raise SpecError(f"{describe(operand, index)} has scale {scale:g}, it takes none")


def _check_value(operand: Operand, index: int | None) -> None:
    _check_channels(operand, index)
    value = operand.value
    if isinstance(value, Model) != (operand.type is OperandCode.MODEL):
        raise SpecError(
            f"{describe(operand, index)}: models, and only models, are values of MODEL operands"
        )
    if not isinstance(value, Data):
        return
    if not operand.known:
        raise SpecError(f"{describe(operand, index)} is a constant of unknown shape")
    wanted = operand.type.numpy.itemsize * operand.size
    if value.bytes.nbytes != wanted:
        named = describe(operand, index)
        raise SpecError(f"{named} takes {wanted} bytes, its constant has {value.bytes.nbytes}")


def _check_channels(operand: Operand, index: int | None) -> None:
    channels = operand.channels
    if operand.type is not OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        if channels is not None:
            raise SpecError(f"{describe(operand, index)} takes no scales per channel")
        return
    if channels is None:
        raise SpecError(f"{describe(operand, index)} has no scales per channel")
    if not 0 <= channels.dim < len(operand.dimensions):
        raise SpecError(f"{describe(operand, index)} has scales along dimension {channels.dim}")
    count = operand.dimensions[channels.dim]
    if count != len(channels.scales) or count == 0:
        raise SpecError(
            f"{describe(operand, index)} has {len(channels.scales)} scales for {count} channels"
        )
    if not all(scale > 0 for scale in channels.scales):
        raise SpecError(f"{describe(operand, index)} has a scale that is not > 0")
