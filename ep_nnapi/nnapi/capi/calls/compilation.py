# ruff: noqa: N802 (functions have the NDK's names)
"""Compilations and bursts. Source: NDK ANeuralNetworksCompilation_*, ANeuralNetworksBurst_*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.c_arguments import require, text
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder
from ep_nnapi.nnapi.capi.device_selection import selected_devices
from ep_nnapi.nnapi.capi.execution import Burst
from ep_nnapi.nnapi.capi.refusal import bad_data, bad_state, unexpected_null
from ep_nnapi.nnapi.capi.registry import BURSTS, COMPILATIONS, MODELS
from ep_nnapi.nnapi.model import Operand

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData

TOKEN_BYTES = 32
"""Source: NDK ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN."""

ALIGNMENT, PADDING = 64, 1
"""Preferred alignment and padding of the devices: a cache line, and no padding."""


def Compilation_create(model: int, out: CData) -> None:
    """Creates a compilation of a finished model; the runtime chooses the device."""
    builder = MODELS[model]
    require(out, "compilation")
    out[0] = 0
    out[0] = COMPILATIONS.add(CompilationBuilder(builder.finished))


def Compilation_createForDevices(model: int, devices: CData, count: int, out: CData) -> None:
    """Creates a compilation for named devices: the first that supports the whole model is used."""
    builder = MODELS[model]
    require(devices, "devices")
    require(out, "compilation")
    out[0] = 0
    if count == 0:
        raise bad_data("no devices are given")
    chosen = selected_devices(devices, count)
    out[0] = COMPILATIONS.add(CompilationBuilder(builder.finished, chosen))


def Compilation_free(compilation: int) -> None:
    """Releases the handle; executions of the compilation stay valid."""
    COMPILATIONS.remove(compilation)


def Compilation_setPreference(compilation: int, preference: int) -> None:
    """Sets the execution preference (PreferenceCode)."""
    COMPILATIONS[compilation].set_preference(preference)


def Compilation_setPriority(compilation: int, priority: int) -> None:
    """Sets the priority relative to other compilations."""
    COMPILATIONS[compilation].set_priority(priority)


def Compilation_setTimeout(compilation: int, duration: int) -> None:
    """Sets the time limit of finishing, in nanoseconds."""
    COMPILATIONS[compilation].set_timeout(duration)


def Compilation_setCaching(compilation: int, directory: CData, token: CData) -> None:
    """Sets the cache directory, and a token of 32 bytes that identifies the model."""
    builder = COMPILATIONS[compilation]
    where = text(directory, "cacheDir")
    require(token, "token")
    builder.set_caching(where, bytes(ffi.buffer(token, TOKEN_BYTES)))


def Compilation_finish(compilation: int) -> None:
    """Compiles the model."""
    COMPILATIONS[compilation].finish()


def Compilation_getPreferredMemoryAlignmentForInput(
    compilation: int, index: int, out: CData
) -> None:
    """Gets the preferred alignment of an input's address, in bytes."""
    _prefer(COMPILATIONS[compilation], (index, out, "alignment"), ALIGNMENT, outward=False)


def Compilation_getPreferredMemoryPaddingForInput(compilation: int, index: int, out: CData) -> None:
    """Gets the number of bytes to whose multiple an input's length is best padded."""
    _prefer(COMPILATIONS[compilation], (index, out, "padding"), PADDING, outward=False)


def Compilation_getPreferredMemoryAlignmentForOutput(
    compilation: int, index: int, out: CData
) -> None:
    """Gets the preferred alignment of an output's address, in bytes."""
    _prefer(COMPILATIONS[compilation], (index, out, "alignment"), ALIGNMENT, outward=True)


def Compilation_getPreferredMemoryPaddingForOutput(
    compilation: int, index: int, out: CData
) -> None:
    """Gets the number of bytes to whose multiple an output's length is best padded."""
    _prefer(COMPILATIONS[compilation], (index, out, "padding"), PADDING, outward=True)


def Compilation_addExtensionAttribute(
    compilation: int, name: CData, code: int, data: CData, length: int
) -> None:
    """Always refused: no device here has vendor extensions."""
    builder = COMPILATIONS[compilation]
    called = text(name, "extensionName")
    if data == ffi.NULL and length:
        raise unexpected_null("data")
    builder.require_unfinished()
    raise bad_data(f"no device has the extension {called}")


def Burst_create(compilation: int, out: CData) -> None:
    """Creates a burst for executions of a finished compilation."""
    builder = COMPILATIONS[compilation]
    require(out, "burst")
    out[0] = 0
    require_ready(builder)
    out[0] = BURSTS.add(Burst(builder))


def Burst_free(burst: int) -> None:
    """Releases the handle."""
    BURSTS.remove(burst)


def require_ready(compilation: CompilationBuilder) -> None:
    """Raises Refused(BAD_STATE) unless executions can be created."""
    if not compilation.is_executable:
        raise bad_state("the compilation is not finished, or failed")


def _prefer(
    compilation: CompilationBuilder, asked: tuple[int, CData, str], value: int, *, outward: bool
) -> None:
    index, out, name = asked
    require(out, name)
    require_ready(compilation)
    operands: Sequence[Operand] = compilation.outputs if outward else compilation.inputs
    if index >= len(operands):
        raise bad_data(f"{'output' if outward else 'input'} {index} of {len(operands)}")
    out[0] = value
