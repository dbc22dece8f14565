"""Compiled models of an NNAPI library, and their executions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import DurationCode, ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.binding import Functions, Handle, create, failed, within
from ep_nnapi.nnapi.library.model_writer import operand_type
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import (
    CompileOptions,
    Duration,
    RunOptions,
    check_output,
    checked,
    delivered,
)

_UNMEASURED = 2**64 - 1
_TRIES = 8
_LEAST = 1 << 12
"""First size of the buffer for an output of unknown dimensions, in bytes; four times more a try.

Later runs begin with what the last one needed that did not fit."""


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
    _least: dict[int, int] = field(init=False, default_factory=dict)  # bytes, by output

    def __post_init__(self) -> None:
        if self.functions.has("Burst_create", "Burst_free", "Execution_burstCompute"):
            arguments = ("Burst_create", self.compilation.value)
            # a burst only saves time: a driver without one computes all the same
            with suppress(RuntimeFailure):
                self._burst = create(self.functions, *arguments, needs=(self.compilation,))

    def run(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Compute; arguments and result as in `runtime.Compilation.run`, already checked."""
        unknown = [i for i, o in enumerate(self.outputs) if not o.known]
        buffers = [self._buffer(i, array) for i, array in enumerate(outputs)]
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
            codes = DurationCode.DURATION_ON_HARDWARE, DurationCode.DURATION_IN_DRIVER
            options.measure(Duration(*(self._measured(execution, code) for code in codes)))
        return [
            _result(i, o, outputs[i], buffers[i], shapes.get(i, o.dimensions))
            for i, o in enumerate(self.outputs)
        ]

    @property
    def _measures(self) -> bool:
        needed = ("Execution_setMeasureTiming", "Execution_getDuration")
        return self.measurable and self.functions.has(*needed)

    def _execution(self, inputs: Arrays, buffers: Sequence[Array], options: RunOptions) -> Handle:
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

    def _buffer(self, index: int, given: Array | None) -> Array:
        """The buffer of an output at the first try."""
        operand = self.outputs[index]
        if given is not None:
            return given
        if operand.known:
            return np.empty(operand.dimensions, operand.type.numpy)
        least = prod(d or 1 for d in operand.dimensions) * operand.type.numpy.itemsize
        return _bytes(max(least, self._least.get(index, _LEAST)))

    def _larger(
        self, index: int, given: Array | None, buffer: Array, shape: tuple[int, ...]
    ) -> Array:
        """A buffer for an output of a run in which one did not fit.

        Raises RuntimeFailure if an array of another shape is given.
        """
        if given is not None:
            if all(shape):
                check_output(given, shape)
            return buffer
        wanted = prod(shape) * self.outputs[index].type.numpy.itemsize if shape else 0
        if 0 < wanted <= buffer.nbytes:
            return buffer
        self._least[index] = wanted or 4 * buffer.nbytes
        return _bytes(self._least[index])

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


def _result(
    index: int, operand: Operand, given: Array | None, buffer: Array, shape: tuple[int, ...]
) -> Array:
    """The result in a buffer; raises RuntimeFailure if a given array has another shape."""
    check_output(given, shape)
    if given is not None:
        return given
    if operand.known:
        return buffer
    size = prod(shape) * operand.type.numpy.itemsize
    return buffer[:size].view(operand.type.numpy).reshape(shape)


def compile_model(
    functions: Functions, model: Handle, device: int | None, options: CompileOptions
) -> Handle:
    """A finished compilation of a finished model for one device; None: for the default one.

    Raises RuntimeFailure; Unresponsive if it has not ended after its timeout.
    """
    if device is None:
        handle = create(functions, "Compilation_create", model.value, needs=(model,))
    else:
        devices = (ctypes.c_void_p * 1)(device)
        arguments = ("Compilation_createForDevices", model.value, devices, 1)
        handle = create(functions, *arguments, needs=(model,))
    functions.call("Compilation_setPreference", handle.value, options.preference)
    if functions.has("Compilation_setPriority"):
        functions.call("Compilation_setPriority", handle.value, options.priority)
    if options.cache_dir is not None and functions.has("Compilation_setCaching"):
        folder = options.cache_dir.encode()
        functions.call("Compilation_setCaching", handle.value, folder, options.token)
    timeout = options.timeout_ns
    if timeout is not None and device is not None and functions.has("Compilation_setTimeout"):
        functions.call("Compilation_setTimeout", handle.value, timeout)
    name = "Compilation_finish"
    within(timeout, name, lambda: functions.call(name, handle.value))
    return handle


@dataclass(frozen=True, slots=True)
class LibraryCompilation:
    """A model compiled by a library; thread-safe.

    measurable   True if it was compiled for a chosen device, whose runs may be timed and limited
    """

    functions: Functions
    compilation: Handle
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    measurable: bool
    _idle: list[Executor] = field(default_factory=list)

    def run(
        self, inputs: Arrays, outputs: Arrays = (), options: RunOptions | None = None
    ) -> list[Array]:
        """Run the model, as `runtime.Compilation.run`.

        With a timeout, the library gets copies of the inputs and buffers of this object, so that a
        run that does not return in time can be abandoned: then it raises Unresponsive.
        """
        options = options or RunOptions()
        given = checked(inputs, outputs, self.inputs, self.outputs)
        for array, operand in zip(given, self.outputs, strict=True):
            if operand.known:
                check_output(array, operand.dimensions)
        if options.stop is not None:
            options.stop()
        if options.timeout_ns is None:
            return self._run(inputs, given, options)
        return self._limited(inputs, given, options)

    def _run(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        try:
            executor = self._idle.pop()
        except IndexError:
            ends = (self.inputs, self.outputs)
            executor = Executor(self.functions, self.compilation, *ends, self.measurable)
        results = executor.run(inputs, outputs, options)
        self._idle.append(executor)  # one that failed is dropped
        return results

    def _limited(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        copies = [None if a is None else a.copy() for a in inputs]
        own = [None] * len(outputs)
        name = "Execution_compute"
        results = within(options.timeout_ns, name, lambda: self._run(copies, own, options))
        return [*map(delivered, results, outputs)]
