# ruff: noqa: N802 (functions have the NDK's names)
"""Executions: inputs and outputs are set one by one, then computed, once or repeatedly.

Source: NDK ANeuralNetworksExecution_*; checks in Android's order.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.argument import Argument, Storage, merged_dimensions, stored
from ep_nnapi.nnapi.capi.burst import Burst
from ep_nnapi.nnapi.capi.c_arguments import AnyOperand, operand_type, require
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder, Direction
from ep_nnapi.nnapi.capi.device import feature_level
from ep_nnapi.nnapi.capi.event import Event, dependency
from ep_nnapi.nnapi.capi.memory import DeviceMemory, Memory, MemoryRegion, Role
from ep_nnapi.nnapi.capi.refusal import (
    Handles,
    Refused,
    bad_data,
    bad_state,
    code_of,
    no_extension,
    op_failed,
)
from ep_nnapi.nnapi.codes import DurationCode, ResultCode
from ep_nnapi.nnapi.forks import ForkableLock, renew_after_fork
from ep_nnapi.nnapi.host.concurrent_runs import MAXIMUM_LOOP_TIMEOUT_NS
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.validate import MAX_BYTES

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData, OperandType


_UNMEASURED = 2**64 - 1
_WITH_DIMENSIONS = (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE)


@dataclass(eq=False)
class Execution:
    """The object of ANeuralNetworksExecution_*, its methods; each of them may raise Refused.

    Clients change all but the first two before the computation; times are in nanoseconds.
    """

    compilation: CompilationBuilder
    has_arguments: bool = False
    measure: bool = False
    timeout: int | None = None
    loop_timeout: int | None = None
    padded: bool = False
    reusable: bool = False

    def __post_init__(self) -> None:
        self._inputs: list[Argument | None] = [None] * len(self.compilation.inputs)
        self._outputs: list[Argument | None] = [None] * len(self.compilation.outputs)
        self._computing = False
        self._ended: ResultCode | None = None  # the last computation
        self._durations: dict[DurationCode, int] = {}  # of it, in nanoseconds
        self._lock = ForkableLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Ends a computation in a forked process, which lacks the computing thread."""
        if self._computing:
            self._ended, self._computing = ResultCode.DEAD_OBJECT, False

    def _change(self, **settings: bool | int | None) -> None:
        """Changes settings; only before the first computation."""
        self._require_preparation()
        vars(self).update(settings)

    def _require_preparation(self) -> None:
        """Raises Refused(BAD_STATE) after the first computation has begun."""
        if self._computing or self._ended is not None:
            raise bad_state("the execution has been computed, or is")

    @staticmethod
    def create(compilation: CompilationBuilder) -> Execution:
        """Creates an execution of a finished compilation."""
        compilation.require_ready()
        return Execution(compilation)

    def setInput(self, index: int, type_: OperandType, buffer: CData, size: int) -> None:
        """Sets an input in the client's memory; (null, 0) omits it."""
        self._set_bytes(Direction.INPUT, index, type_, buffer, size)

    def setOutput(self, index: int, type_: OperandType, buffer: CData, size: int) -> None:
        """Sets an output in the client's memory; (null, 0) omits it."""
        self._set_bytes(Direction.OUTPUT, index, type_, buffer, size)

    def setInputFromMemory(
        self, index: int, type_: OperandType, memory: Memory, start: int, size: int
    ) -> None:
        """Sets an input in a memory object."""
        self._set_memory(Direction.INPUT, index, type_, memory, (start, size))

    def setOutputFromMemory(
        self, index: int, type_: OperandType, memory: Memory, start: int, size: int
    ) -> None:
        """Sets an output in a memory object."""
        self._set_memory(Direction.OUTPUT, index, type_, memory, (start, size))

    def setMeasureTiming(self, measure: bool) -> None:
        """Enables or disables timing."""
        self.compilation.require_single_device("measuring")
        self._change(measure=measure)

    def setTimeout(self, duration: int) -> None:
        """Sets the time limit of a computation, in nanoseconds; 0 for no limit."""
        self.compilation.require_single_device("a timeout")
        self._change(timeout=duration or None)

    def setLoopTimeout(self, duration: int) -> None:
        """Sets the time limit of a WHILE loop, in nanoseconds, capped at the maximum."""
        self._change(loop_timeout=min(duration, MAXIMUM_LOOP_TIMEOUT_NS))

    def enableInputAndOutputPadding(self, enable: bool) -> None:
        """Allows or forbids buffers longer than needed; only before any buffer is set."""
        self._require_preparation()
        if self.has_arguments:
            raise bad_state("padding is chosen before an input or output is set")
        self._change(padded=enable)

    def setReusable(self, reusable: bool) -> None:
        """Allows or forbids computing the execution more than once."""
        self._change(reusable=reusable)

    def addExtensionAttribute(self, name: str, code: int, data: CData, length: int) -> None:
        """Always refused: no device here has vendor extensions."""
        require(data, "data", length)
        self._require_preparation()
        raise no_extension(name)

    def _set_bytes(
        self, direction: Direction, index: int, type_: OperandType, buffer: CData, size: int
    ) -> None:
        require(buffer, "buffer", size)
        self._require_preparation()
        given = _type(type_)
        if size > MAX_BYTES:
            raise bad_data(f"{size} bytes are more than {MAX_BYTES}")
        raw = None if buffer == ffi.NULL else np.frombuffer(ffi.buffer(buffer, size), np.uint8)
        self._put(direction, index, given, raw)

    def _set_memory(
        self,
        direction: Direction,
        index: int,
        type_: OperandType,
        memory: Memory,
        region: tuple[int, int],
    ) -> None:
        self._require_preparation()
        given = _type(type_)
        dimensions = None if given is None else given.dimensions
        role = Role(self.compilation, direction, index)
        storage = memory.storage(role, MemoryRegion(*region, dimensions))
        self._put(direction, index, given, storage)

    def compute(self) -> None:
        """Computes synchronously."""
        requested = time.monotonic_ns()
        self._begin()
        self._complete(requested, None)

    def burstCompute(self, burst: Burst) -> None:
        """Computes synchronously as part of a burst."""
        if self.compilation is not burst.compilation:
            raise bad_data("burst and execution are of different compilations")
        if not burst.running.acquire(blocking=False):
            raise bad_state("the burst is running")
        try:
            self.compute()
        finally:
            burst.running.release()

    def startCompute(self) -> Event:
        """Starts computing; the event signals the end.

        On a new thread, or on the one that waits for the event.
        """
        requested = time.monotonic_ns()
        self._begin()
        event = Event(lambda: self._complete(requested, None), waiters_compute=True)
        return self._started(event)

    def startComputeWithDependencies(self, dependencies: CData, count: int, duration: int) -> Event:
        """Starts computing after other events, then within `duration` nanoseconds."""
        require(dependencies, "dependencies", count)
        events = [dependency(dependencies[place]) for place in range(count)]
        limit, requested = duration or None, time.monotonic_ns()
        self._begin()
        try:
            if limit is not None:
                self.compilation.require_single_device("a duration")
            self._require_known_outputs()
        except Refused as refused:
            raise self._fail(refused) from refused

        def compute() -> None:
            failed = [e for e in events if e.wait_for_result_code() is not ResultCode.NO_ERROR]
            if failed:
                raise self._fail(op_failed(f"{len(failed)} of {len(events)} dependencies failed"))
            self._complete(requested, limit)

        return self._started(Event(compute))

    def getOutputOperandRank(self, index: int, out: CData) -> None:
        """Gets the rank of an output of the last computation, even if its buffer was too small."""
        output = self._output(index)
        out[0] = len(output.dimensions)
        output.require_sufficient()

    def getOutputOperandDimensions(self, index: int, out: CData) -> None:
        """Gets an output's dimensions in the last computation, even if its buffer was too small."""
        output = self._output(index)
        if not output.dimensions:
            raise bad_data(f"output {index} is a scalar")
        for place, size in enumerate(output.dimensions):
            out[place] = size
        output.require_sufficient()

    def getDuration(self, code: int, out: CData) -> None:
        """Gets the duration of the last computation, in nanoseconds."""
        if code not in set(DurationCode):
            raise bad_data(f"no duration has the code {code}")
        out[0] = _UNMEASURED
        if self._computing or self._ended is not ResultCode.NO_ERROR:
            raise bad_state("the execution is not completed, or failed")
        if not self.measure or not self._durations:
            raise bad_state("the execution was not measured")
        out[0] = self._durations[DurationCode(code)]

    def _output(self, index: int) -> Argument:
        """Returns an output of a finished computation."""
        if self._computing or self._ended not in _WITH_DIMENSIONS:
            raise bad_state("the execution is not completed, or failed")
        found = self._arguments(Direction.OUTPUT, index)[index]
        if found is None:
            raise bad_state("the execution is not completed")
        return found

    def _begin(self) -> None:
        """Marks the execution as computing; BAD_STATE while it runs, or if it cannot be reused."""
        with self._lock:
            if self._computing:
                raise bad_state("the execution is being computed")
            if self._ended is not None and not self.reusable:
                raise bad_state("the execution has been computed and is not reusable")
            self._computing = True
        if None in self._inputs or None in self._outputs:
            raise self._fail(bad_data("not all inputs and outputs are set"))

    def _complete(self, requested: int, limit: int | None) -> None:
        """Runs the computation: `limit` counts from now, the timeout from `requested`."""
        try:
            self._compute(requested, limit)
            insufficient = [i for i, a in enumerate(self._outputs) if a and not a.sufficient]
            if insufficient:
                detail = f"outputs {insufficient} do not fit"
                raise Refused(ResultCode.OUTPUT_INSUFFICIENT_SIZE, detail)
        except Exception as error:
            raise self._fail(error) from error
        except BaseException as interrupt:
            self._fail(interrupt)
            raise
        self._set_completed(ResultCode.NO_ERROR)

    def _fail(self, error: BaseException) -> Refused:
        """Ends a failed computation; returns the error as a Refused with a result code."""
        for output in self._outputs:
            if output is not None and isinstance(output.storage, DeviceMemory):
                output.storage.value = None
        code = code_of(error)
        self._set_completed(code)
        return error if isinstance(error, Refused) else Refused(code, str(error))

    def _started(self, event: Event) -> Event:
        """Has a new thread compute; threading.Thread would wait until it runs."""
        try:
            start_new_thread(event.run, ())
        except RuntimeError as error:  # the system cannot start another thread
            raise self._fail(error) from error
        return event

    def _require_known_outputs(self) -> None:
        for index, output in enumerate(self._outputs):
            if output is not None and output.storage is not None and not output.known:
                raise bad_data(f"output {index} has dimensions {list(output.initial)}")

    def _compute(self, requested: int, limit: int | None) -> None:
        ready = time.monotonic_ns()
        inputs = [a.value() for a in self._inputs if a is not None]
        outputs = [a for a in self._outputs if a is not None]
        for output in outputs:
            output.reset()
        targets = [o.target for o in outputs]
        options = RunOptions(self._remaining(requested, ready, limit), self.loop_timeout)
        started = time.monotonic_ns()
        results = self.compilation.run(inputs, targets, options)
        done = time.monotonic_ns()
        self._durations = {  # fenced ones are without the wait for other executions
            DurationCode.DURATION_ON_HARDWARE: done - started,
            DurationCode.DURATION_IN_DRIVER: done - requested,
            DurationCode.FENCED_DURATION_ON_HARDWARE: done - started,
            DurationCode.FENCED_DURATION_IN_DRIVER: done - ready,
        }
        for output, result, target in zip(outputs, results, targets, strict=True):
            output.store(result, target)

    def _remaining(self, requested: int, ready: int, limit: int | None) -> int | None:
        """Returns the nanoseconds left; raises Refused(MISSED_DEADLINE_TRANSIENT) if none are."""
        timeout = self.timeout
        limits = [] if timeout is None else [requested + timeout - time.monotonic_ns()]
        limits += [] if limit is None else [ready + limit - time.monotonic_ns()]
        if limits and min(limits) <= 0:
            raise Refused(ResultCode.MISSED_DEADLINE_TRANSIENT, "the time is over")
        return min(limits, default=None)

    def _set_completed(self, code: ResultCode) -> None:
        with self._lock:
            self._ended, self._computing = code, False

    def _arguments(self, direction: Direction, index: int) -> list[Argument | None]:
        self.compilation.operand(direction, index)
        return self._inputs if direction is Direction.INPUT else self._outputs

    def _put(
        self, direction: Direction, index: int, given: AnyOperand | None, storage: Storage
    ) -> None:
        """Stores an argument that has the dimensions of its operand and of its type, if given."""
        operand = self.compilation.operand(direction, index)
        arguments = self._arguments(direction, index)
        partial = direction is Direction.OUTPUT or storage is None
        dimensions = merged_dimensions(operand, given, partial)
        if arguments[index] is not None:
            raise bad_state(f"argument {index} is set already")
        self.has_arguments = True
        arguments[index] = stored(operand, dimensions, storage, self.padded)


EXECUTIONS: Handles[Execution] = Handles("Execution", Execution)


def _type(pointer: OperandType) -> AnyOperand | None:
    return None if pointer == ffi.NULL else operand_type(pointer, feature_level())
