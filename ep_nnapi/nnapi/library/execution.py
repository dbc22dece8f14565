"""Executions of a compiled model through the C API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import DurationCode, ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.binding import Functions, failed
from ep_nnapi.nnapi.library.handles import Handle, create
from ep_nnapi.nnapi.library.model_writer import operand_type
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import Duration, RunOptions, wrong_output

_UNMEASURED = 2**64 - 1
_TRIES = 8
_LEAST = 1 << 12
"""First size of the buffer for an output of unknown dimensions, in bytes; four times more a try."""

Given: TypeAlias = Sequence[Array | None]


@dataclass(slots=True)
class Executor:
    """Runs a compiled model; used by one thread at a time.

    It owns a burst object, with which a driver keeps its resources between runs, and the last
    execution, which is computed again while the buffers stay at the same addresses.

    measurable   True if durations may be measured: NNAPI does so for a chosen device only
    """

    functions: Functions
    compilation: Handle
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    measurable: bool
    _burst: Handle | None = field(init=False, default=None)
    _last: tuple[object, Handle] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.functions.has("Burst_create", "Burst_free", "Execution_burstCompute"):
            arguments = ("Burst_create", self.compilation.value)
            # a burst only saves time: a driver without one computes all the same
            with suppress(RuntimeFailure):
                self._burst = create(self.functions, *arguments, needs=(self.compilation,))

    def run(self, inputs: Given, outputs: Given, options: RunOptions) -> list[Array]:
        """Compute; arguments and result as in `runtime.Compilation.run`, already checked."""
        unknown = [i for i, o in enumerate(self.outputs) if not o.known]
        buffers = [_buffer(o, array) for o, array in zip(self.outputs, outputs, strict=True)]
        for last_try in (*[False] * (_TRIES - 1), True):
            execution = self._execution(inputs, buffers, options)
            name, code = self._compute(execution)
            insufficient = code == ResultCode.OUTPUT_INSUFFICIENT_SIZE
            if code != ResultCode.NO_ERROR and (last_try or not unknown or not insufficient):
                self._last = None
                raise failed(name, code)
            shapes = {i: self._shape(execution, i) for i in unknown}
            if code == ResultCode.NO_ERROR:
                break
            for i, shape in shapes.items():
                buffers[i] = self._larger(i, outputs[i], buffers[i], shape)
        if options.measure is not None and self._measures:
            options.measure(self._duration(execution))
        return [
            _result(i, o, outputs[i], buffers[i], shapes.get(i, o.dimensions))
            for i, o in enumerate(self.outputs)
        ]

    @property
    def _measures(self) -> bool:
        needed = ("Execution_setMeasureTiming", "Execution_getDuration")
        return self.measurable and self.functions.has(*needed)

    def _execution(self, inputs: Given, buffers: Sequence[Array], options: RunOptions) -> Handle:
        """The last execution if it has the same buffers and options, or a new one."""
        limits = (options.timeout_ns, options.loop_timeout_ns, options.measure is not None)
        key = (tuple(map(_location, inputs)), tuple(map(_location, buffers)), limits)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # frees the execution before another one is made
        call, value = self.functions.call, self.compilation.value
        needs = (self.compilation,)
        execution = create(self.functions, "Execution_create", value, needs=needs)
        self._set_options(execution.value, options)
        for i, (operand, array) in enumerate(zip(self.inputs, inputs, strict=True)):
            call("Execution_setInput", execution.value, i, *_argument(operand, array))
        for i, buffer in enumerate(buffers):
            call("Execution_setOutput", execution.value, i, None, buffer.ctypes.data, buffer.nbytes)
        if self.functions.has("Execution_setReusable"):
            call("Execution_setReusable", execution.value, True)
            self._last = (key, execution)
        return execution

    def _set_options(self, execution: int, options: RunOptions) -> None:
        """Set what the library has functions for; runtimes treat timeouts as hints."""
        given = {
            "Execution_setTimeout": options.timeout_ns if self.measurable else None,
            "Execution_setLoopTimeout": options.loop_timeout_ns,
            "Execution_setMeasureTiming": (options.measure and self._measures) or None,
        }
        for name, argument in given.items():
            if argument is not None and self.functions.has(name):
                self.functions.call(name, execution, argument)

    def _compute(self, execution: Handle) -> tuple[str, int]:
        """Compute synchronously; returns the function that ends it and its result code."""
        functions, value = self.functions, execution.value
        if self._burst is not None:
            name = "Execution_burstCompute"
            return name, functions.code(name, value, self._burst.value)
        if functions.has("Execution_compute"):
            return "Execution_compute", functions.code("Execution_compute", value)
        out = ctypes.c_void_p()
        code = functions.code("Execution_startCompute", value, ctypes.byref(out))
        if code != ResultCode.NO_ERROR:
            return "Execution_startCompute", code
        event = Handle(functions, "Event", out.value or 0, execution)
        return "Event_wait", functions.code("Event_wait", event.value)

    def _shape(self, execution: Handle, index: int) -> tuple[int, ...]:
        """The dimensions of an output of a computed execution, 0 for those still unknown."""
        rank = ctypes.c_uint32()
        self._query("Execution_getOutputOperandRank", execution, index, ctypes.byref(rank))
        if not rank.value:
            return ()
        sizes = (ctypes.c_uint32 * rank.value)()
        self._query("Execution_getOutputOperandDimensions", execution, index, sizes)
        return tuple(sizes)

    def _query(self, name: str, execution: Handle, index: int, out: object) -> None:
        code = self.functions.code(name, execution.value, index, out)
        if code not in (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE):
            raise failed(name, code)

    def _larger(
        self, index: int, given: Array | None, buffer: Array, shape: tuple[int, ...]
    ) -> Array:
        """A buffer for an output that did not fit; raises RuntimeFailure if the array is given."""
        if given is not None:
            raise wrong_output(given.shape, shape)
        wanted = prod(shape) * self.outputs[index].type.numpy.itemsize if shape else 0
        return buffer if wanted and wanted <= buffer.nbytes else _bytes(wanted or 4 * buffer.nbytes)

    def _duration(self, execution: Handle) -> Duration:
        return Duration(
            self._measured(execution, DurationCode.DURATION_ON_HARDWARE),
            self._measured(execution, DurationCode.DURATION_IN_DRIVER),
        )

    def _measured(self, execution: Handle, code: DurationCode) -> int | None:
        out = ctypes.c_uint64(_UNMEASURED)
        self.functions.call("Execution_getDuration", execution.value, code, ctypes.byref(out))
        return None if out.value == _UNMEASURED else out.value


def _location(array: Array | None) -> tuple[int, tuple[int, ...]] | None:
    return None if array is None else (array.ctypes.data, array.shape)


def _argument(operand: Operand, array: Array | None) -> tuple[object, int | None, int]:
    """Type, address and size for setInput; the type only where the model leaves it open."""
    if array is None:
        return None, None, 0
    shown = None if operand.known else ctypes.byref(operand_type(operand, array.shape))
    return shown, array.ctypes.data, array.nbytes


def _bytes(size: int) -> Array:
    return np.empty(max(size, 1), np.uint8)


def _buffer(operand: Operand, given: Array | None) -> Array:
    """The buffer of an output at the first try."""
    if given is not None:
        return given
    if operand.known:
        return np.empty(operand.dimensions, operand.type.numpy)
    least = prod(d or 1 for d in operand.dimensions) * operand.type.numpy.itemsize
    return _bytes(max(least, _LEAST))


def _result(
    index: int, operand: Operand, given: Array | None, buffer: Array, shape: tuple[int, ...]
) -> Array:
    """The result in a buffer; raises RuntimeFailure if a given array has another shape."""
    if given is not None:
        if given.shape != shape:
            raise wrong_output(given.shape, shape)
        return given
    if operand.known:
        return buffer
    size = prod(shape) * operand.type.numpy.itemsize
    return buffer[:size].view(operand.type.numpy).reshape(shape)
