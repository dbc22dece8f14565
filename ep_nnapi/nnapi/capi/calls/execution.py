# ruff: noqa: N802 (functions have the NDK's names)
"""Executions. Source: NDK ANeuralNetworksExecution_*."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.c_arguments import operand_type, require, text
from ep_nnapi.nnapi.capi.calls.compilation import require_ready
from ep_nnapi.nnapi.capi.event import Event
from ep_nnapi.nnapi.capi.execution import Execution
from ep_nnapi.nnapi.capi.library_state import feature_level
from ep_nnapi.nnapi.capi.memory import Direction, Region, Role
from ep_nnapi.nnapi.capi.operand import AnyOperand
from ep_nnapi.nnapi.capi.refusal import Refused, bad_data, unexpected_null
from ep_nnapi.nnapi.capi.registry import BURSTS, COMPILATIONS, EVENTS, EXECUTIONS, MEMORIES
from ep_nnapi.nnapi.codes import DurationCode, ResultCode
from ep_nnapi.nnapi.host.run import MAXIMUM_LOOP_TIMEOUT_NS
from ep_nnapi.nnapi.validate import MAX_BYTES

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData, OperandType

_UNMEASURED = 2**64 - 1


def Execution_create(compilation: int, out: CData) -> None:
    """Creates an execution of a finished compilation."""
    builder = COMPILATIONS[compilation]
    require(out, "execution")
    out[0] = 0
    require_ready(builder)
    out[0] = EXECUTIONS.add(Execution(builder))


def Execution_free(execution: int) -> None:
    """Releases the handle; a running computation continues."""
    EXECUTIONS.remove(execution)


def Execution_setInput(
    execution: int, index: int, type_: OperandType, buffer: CData, size: int
) -> None:
    """Sets an input in the client's memory; (null, 0) omits it."""
    _set(EXECUTIONS[execution], (Direction.INPUT, index), type_, (buffer, size))


def Execution_setOutput(
    execution: int, index: int, type_: OperandType, buffer: CData, size: int
) -> None:
    """Sets an output in the client's memory; (null, 0) omits it."""
    _set(EXECUTIONS[execution], (Direction.OUTPUT, index), type_, (buffer, size))


def Execution_setInputFromMemory(
    execution: int, index: int, type_: OperandType, memory: int, offset: int, length: int
) -> None:
    """Sets an input in a memory object."""
    _set_memory(execution, (Direction.INPUT, index), type_, (memory, offset, length))


def Execution_setOutputFromMemory(
    execution: int, index: int, type_: OperandType, memory: int, offset: int, length: int
) -> None:
    """Sets an output in a memory object."""
    _set_memory(execution, (Direction.OUTPUT, index), type_, (memory, offset, length))


def Execution_compute(execution: int) -> None:
    """Computes synchronously."""
    EXECUTIONS[execution].compute()


def Execution_burstCompute(execution: int, burst: int) -> None:
    """Computes synchronously as part of a burst."""
    started = EXECUTIONS[execution]
    BURSTS[burst].compute(started)


def Execution_startCompute(execution: int, out: CData) -> None:
    """Starts computing; the event signals the end."""
    started = EXECUTIONS[execution]
    require(out, "event")
    out[0] = 0
    out[0] = EVENTS.add(started.start())


def Execution_startComputeWithDependencies(
    execution: int, dependencies: CData, count: int, duration: int, out: CData
) -> None:
    """Starts computing after other events, then within `duration` nanoseconds."""
    require(out, "event")
    out[0] = 0
    if count and dependencies == ffi.NULL:
        raise unexpected_null("dependencies")
    started = EXECUTIONS[execution]
    events = [_dependency(dependencies[place]) for place in range(count)]
    out[0] = EVENTS.add(started.start_after(events, duration or None))


def Execution_getOutputOperandRank(execution: int, index: int, out: CData) -> None:
    """Gets the rank of an output of the last computation, even if its buffer was too small."""
    found = EXECUTIONS[execution]
    require(out, "rank")
    output = found.output(index)
    out[0] = len(output.dimensions)
    _report_fit(output.sufficient)


def Execution_getOutputOperandDimensions(execution: int, index: int, out: CData) -> None:
    """Gets the dimensions of an output of the last computation, even if its buffer is too small."""
    found = EXECUTIONS[execution]
    require(out, "dimensions")
    output = found.output(index)
    if not output.dimensions:
        raise bad_data(f"output {index} is a scalar")
    for place, size in enumerate(output.dimensions):
        out[place] = size
    _report_fit(output.sufficient)


def Execution_setMeasureTiming(execution: int, measure: bool) -> None:
    """Enables or disables timing."""
    found = EXECUTIONS[execution]
    found.compilation.require_single_device("measuring")
    found.change(replace(found.settings, measure=measure))


def Execution_getDuration(execution: int, code: int, out: CData) -> None:
    """Gets the duration of the last computation, in nanoseconds."""
    found = EXECUTIONS[execution]
    require(out, "duration")
    if code not in set(DurationCode):
        raise bad_data(f"no duration has the code {code}")
    out[0] = _UNMEASURED
    out[0] = found.timing.duration(DurationCode(code))


def Execution_setTimeout(execution: int, duration: int) -> None:
    """Sets the time limit of a computation, in nanoseconds; 0 for no limit."""
    found = EXECUTIONS[execution]
    found.compilation.require_single_device("a timeout")
    found.change(replace(found.settings, timeout=duration or None))


def Execution_setLoopTimeout(execution: int, duration: int) -> None:
    """Sets the time limit of a WHILE loop, in nanoseconds, capped at the maximum."""
    found = EXECUTIONS[execution]
    found.change(replace(found.settings, loop_timeout=min(duration, MAXIMUM_LOOP_TIMEOUT_NS)))


def Execution_enableInputAndOutputPadding(execution: int, enable: bool) -> None:
    """Allows or forbids buffers longer than needed."""
    EXECUTIONS[execution].enable_padding(enable)


def Execution_setReusable(execution: int, reusable: bool) -> None:
    """Allows or forbids computing the execution more than once."""
    found = EXECUTIONS[execution]
    found.change(replace(found.settings, reusable=reusable))


def Execution_addExtensionAttribute(
    execution: int, name: CData, code: int, data: CData, length: int
) -> None:
    """Always refused: no device here has vendor extensions."""
    found = EXECUTIONS[execution]
    called = text(name, "extensionName")
    if data == ffi.NULL and length:
        raise unexpected_null("data")
    found.require_preparation()
    raise bad_data(f"no device has the extension {called}")


def _set(
    execution: Execution,
    argument: tuple[Direction, int],
    type_: OperandType,
    memory: tuple[CData, int],
) -> None:
    buffer, size = memory
    missing = buffer == ffi.NULL
    if missing and size:
        raise unexpected_null("buffer")
    execution.require_preparation()
    given = _type(type_)
    if size > MAX_BYTES:
        raise bad_data(f"{size} bytes are more than {MAX_BYTES}")
    raw = None if missing else np.frombuffer(ffi.buffer(buffer, size), np.uint8)
    execution.set_bytes(*argument, given, raw)


def _set_memory(
    execution: int,
    argument: tuple[Direction, int],
    type_: OperandType,
    place: tuple[int, int, int],
) -> None:
    found = EXECUTIONS[execution]
    memory, offset, length = place
    source = MEMORIES[memory]
    found.require_preparation()
    given = _type(type_)
    region = Region(offset, length, None if given is None else given.dimensions)
    found.set_memory(Role(found.compilation, *argument), given, source, region)


def _type(pointer: OperandType) -> AnyOperand | None:
    return None if pointer == ffi.NULL else operand_type(pointer, feature_level())


def _dependency(handle: int) -> Event:
    """Returns one event of a list; reading the list stops at the first invalid handle."""
    if handle == 0:
        raise unexpected_null("a dependency")
    return EVENTS[handle]


def _report_fit(sufficient: bool) -> None:
    if not sufficient:
        raise Refused(ResultCode.OUTPUT_INSUFFICIENT_SIZE, "the output did not fit")
