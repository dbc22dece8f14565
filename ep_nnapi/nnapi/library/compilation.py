"""Compiled models of an NNAPI library."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.library.binding import Functions
from ep_nnapi.nnapi.library.deadline import within
from ep_nnapi.nnapi.library.execution import Executor
from ep_nnapi.nnapi.library.handles import Handle, create
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions, checked, wrong_output


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

    @staticmethod
    def of(
        functions: Functions, compilation: Handle, model: Model, measurable: bool
    ) -> LibraryCompilation:
        """The compilation of `model`."""
        ends = ((model.operands[i] for i in indexes) for indexes in (model.inputs, model.outputs))
        inputs, outputs = map(tuple, ends)
        return LibraryCompilation(functions, compilation, inputs, outputs, measurable)

    def run(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None] = (),
        options: RunOptions | None = None,
    ) -> list[Array]:
        """Run the model, as `runtime.Compilation.run`.

        With a timeout, the library gets copies of the inputs and buffers of this object, so that a
        run that does not return in time can be abandoned: then it raises Unresponsive.
        """
        options = options or RunOptions()
        given = checked(inputs, outputs, self.inputs, self.outputs)
        for array, operand in zip(given, self.outputs, strict=True):
            if array is not None and operand.known and array.shape != operand.dimensions:
                raise wrong_output(array.shape, operand.dimensions)
        if options.stop is not None:
            options.stop()
        if options.timeout_ns is None:
            return self._run(inputs, given, options)
        return self._limited(inputs, given, options)

    def _run(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        try:
            executor = self._idle.pop()
        except IndexError:
            ends = (self.inputs, self.outputs)
            executor = Executor(self.functions, self.compilation, *ends, self.measurable)
        results = executor.run(inputs, outputs, options)
        self._idle.append(executor)  # one that failed is dropped
        return results

    def _limited(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        copies = [None if a is None else a.copy() for a in inputs]
        own = [None] * len(outputs)
        name = "Execution_compute"
        results = within(options.timeout_ns, name, lambda: self._run(copies, own, options))
        for result, array in zip(results, outputs, strict=True):
            if array is not None and array.shape != result.shape:
                raise wrong_output(array.shape, result.shape)
            if array is not None:
                np.copyto(array, result)
        return [r if a is None else a for r, a in zip(results, outputs, strict=True)]
