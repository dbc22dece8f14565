# ruff: noqa: N802 (functions have the NDK's names)
"""Models. Source: NDK ANeuralNetworksModel_*."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.builder import ModelBuilder
from ep_nnapi.nnapi.capi.c_arguments import channels, numbers, operand_type, require
from ep_nnapi.nnapi.capi.device_selection import selected_devices
from ep_nnapi.nnapi.capi.library_state import feature_level, runtime
from ep_nnapi.nnapi.capi.memory import Region
from ep_nnapi.nnapi.capi.refusal import bad_data, unexpected_null
from ep_nnapi.nnapi.capi.registry import MEMORIES, MODELS

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData, ChannelParams, OperandType


def Model_create(out: CData) -> None:
    """Creates an empty model."""
    require(out, "model")
    out[0] = MODELS.add(ModelBuilder(feature_level()))


def Model_free(model: int) -> None:
    """Releases the handle; compilations of the model stay valid."""
    MODELS.remove(model)


def Model_finish(model: int) -> None:
    """Validates the model; it cannot be changed afterwards."""
    MODELS[model].finish()


def Model_addOperand(model: int, described: OperandType) -> None:
    """Appends an operand of the given type."""
    builder = MODELS[model]
    require(described, "type")
    builder.require_unfinished()
    builder.add_operand(operand_type(described, builder.level))


def Model_setOperandValue(model: int, index: int, buffer: CData, length: int) -> None:
    """Sets a constant from the client's memory; (null, 0) omits the operand."""
    builder = MODELS[model]
    if buffer != ffi.NULL:
        builder.check_constant(index, length, copied=True)
        builder.set_value(index, np.frombuffer(ffi.buffer(buffer, length), np.uint8))
    elif length:
        raise unexpected_null("buffer")
    else:
        builder.set_value(index, None)


def Model_setOperandValueFromMemory(
    model: int, index: int, memory: int, offset: int, length: int
) -> None:
    """Sets a constant from a memory object, which is referenced, not copied."""
    builder, source = MODELS[model], MEMORIES[memory]
    builder.check_constant(index, length)
    builder.set_value(index, source.bytes(Region(offset, length)))


def Model_setOperandValueFromModel(model: int, index: int, value: int) -> None:
    """Sets the referenced model of an IF or WHILE."""
    MODELS[model].set_value_from_model(index, MODELS[value])


def Model_setOperandSymmPerChannelQuantParams(
    model: int, index: int, params: ChannelParams
) -> None:
    """Sets the per-channel scales of an operand."""
    builder = MODELS[model]
    require(params, "channelQuant")
    builder.set_channels(index, channels(params, builder.per_channel(index)))


def Model_addOperation(
    model: int, code: int, n_inputs: int, inputs: CData, n_outputs: int, outputs: CData
) -> None:
    """Appends an operation; its operands must have been added."""
    builder = MODELS[model]
    require(inputs, "inputs")
    require(outputs, "outputs")
    builder.require_unfinished()
    builder.add_operation(code, numbers(inputs, n_inputs), numbers(outputs, n_outputs))


def Model_identifyInputsAndOutputs(
    model: int, n_inputs: int, inputs: CData, n_outputs: int, outputs: CData
) -> None:
    """Sets the model's inputs and outputs."""
    builder = MODELS[model]
    require(inputs, "inputs")
    require(outputs, "outputs")
    builder.require_unfinished()
    builder.identify(numbers(inputs, n_inputs), numbers(outputs, n_outputs))


def Model_relaxComputationFloat32toFloat16(model: int, allow: bool) -> None:
    """Allows or forbids computing float32 as float16; nnapi-reference always uses float32."""
    MODELS[model].relax(allow)


def Model_getSupportedOperationsForDevices(
    model: int, devices: CData, count: int, supported: CData
) -> None:
    """Gets for each operation, in the order added, whether one of the devices supports it."""
    builder = MODELS[model]
    require(devices, "devices")
    require(supported, "supportedOps")
    if count == 0:
        raise bad_data("no devices are given")
    finished = builder.finished
    chosen = selected_devices(devices, count)
    answers = [False] * len(finished.order)
    if finished.model is not None:
        for device in chosen:
            for place, able in zip(
                finished.order, runtime().supported(finished.model, device), strict=True
            ):
                answers[place] |= able
    for place, answer in enumerate(answers):
        supported[place] = answer


def Model_getExtensionOperandType(model: int, name: CData, code: int, out: CData) -> None:
    """Always BAD_DATA: there are no vendor extensions."""
    _no_extension(model, name, out)


def Model_getExtensionOperationType(model: int, name: CData, code: int, out: CData) -> None:
    """Always BAD_DATA: there are no vendor extensions."""
    _no_extension(model, name, out)


def Model_setOperandExtensionData(model: int, index: int, data: CData, length: int) -> None:
    """Always refused: no operand here has an extension type."""
    builder = MODELS[model]
    if data == ffi.NULL and length:
        raise unexpected_null("data")
    builder.operand(index)
    raise bad_data(f"operand {index} is not of a vendor extension's type")


def _no_extension(model: int, name: CData, out: CData) -> None:
    MODELS[model]
    require(name, "extensionName")
    require(out, "type")
    raise bad_data(f"no device has the extension {ffi.string(name, 200)!r}")
