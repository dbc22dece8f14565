"""Executions: inputs and outputs are set one by one, then computed, once or repeatedly.

Source: NDK ANeuralNetworksExecution_*, ANeuralNetworksBurst_*; checks in Android's order.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.capi.argument import Argument, from_bytes, merged_dimensions
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder
from ep_nnapi.nnapi.capi.event import Event
from ep_nnapi.nnapi.capi.memory import AnyMemory, DeviceMemory, Direction, FileMemory, Region, Role
from ep_nnapi.nnapi.capi.operand import AnyOperand
from ep_nnapi.nnapi.capi.refusal import Refused, bad_data, bad_state, code_of, op_failed
from ep_nnapi.nnapi.capi.timing import Timing
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.forks import ForkableLock, renew_after_fork
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import RunOptions

_WITH_DIMENSIONS = (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE)


class ExecutionState(Enum):
    """State of an execution."""

    PREPARATION = auto()
    COMPUTATION = auto()
    COMPLETED = auto()


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings a client makes before the computation; times in nanoseconds."""

    measure: bool = False
    timeout: int | None = None
    loop_timeout: int | None = None
    padded: bool = False
    reusable: bool = False


class Burst:
    """A burst: executions of one compilation in quick succession, one at a time."""

    def __init__(self, compilation: CompilationBuilder) -> None:
        self.compilation = compilation
        self._running = ForkableLock()

    def compute(self, execution: Execution) -> None:
        """Computes; raises Refused(BAD_DATA) for another compilation, BAD_STATE while it runs."""
        if execution.compilation is not self.compilation:
            raise bad_data("burst and execution are of different compilations")
        if not self._running.acquire(blocking=False):
            raise bad_state("the burst is running")
        try:
            execution.compute()
        finally:
            self._running.release()


@dataclass(eq=False)
class Execution:
    """The object behind ANeuralNetworksExecution; every method may raise Refused."""

    compilation: CompilationBuilder
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self._inputs: list[Argument | None] = [None] * len(self.compilation.inputs)
        self._outputs: list[Argument | None] = [None] * len(self.compilation.outputs)
        self._has_arguments = False
        self._state = ExecutionState.PREPARATION
        self._ended: ResultCode | None = None
        self._timing: Timing | None = None
        self._lock = ForkableLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Ends a computation in a forked process, which lacks the computing thread."""
        if self._state is ExecutionState.COMPUTATION:
            self._ended, self._state = ResultCode.DEAD_OBJECT, ExecutionState.COMPLETED

    def change(self, settings: Settings) -> None:
        """Replaces the settings; only before the first computation."""
        self.require_preparation()
        self.settings = settings

    def enable_padding(self, enable: bool) -> None:
        """Allows or forbids buffers longer than needed; only before any buffer is set."""
        self.require_preparation()
        if self._has_arguments:
            raise bad_state("padding is chosen before an input or output is set")
        self.settings = replace(self.settings, padded=enable)

    def require_preparation(self) -> None:
        """Raises Refused(BAD_STATE) after the first computation has begun."""
        if self._state is not ExecutionState.PREPARATION:
            raise bad_state("the execution has been computed, or is")

    def set_bytes(
        self, direction: Direction, index: int, given: AnyOperand | None, raw: Array | None
    ) -> None:
        """Sets an input or output in the client's own memory; None omits it."""
        arguments = self._arguments(direction, index)
        partial = direction is Direction.OUTPUT or raw is None
        operand = self._operands(direction)[index]
        dimensions = merged_dimensions(operand, given, partial)
        self._require_unset(arguments, index)
        self._has_arguments = True
        if raw is None:
            arguments[index] = Argument(operand, None, dimensions)
        else:
            arguments[index] = from_bytes(operand, dimensions, raw, self.settings.padded)

    def set_memory(
        self, role: Role, given: AnyOperand | None, memory: AnyMemory, region: Region
    ) -> None:
        """Sets an input or output in a memory object."""
        arguments, index = self._arguments(role.direction, role.index), role.index
        operand = self._operands(role.direction)[index]
        dimensions = merged_dimensions(operand, given, role.direction is Direction.OUTPUT)
        memory.check(role, region)
        self._require_unset(arguments, index)
        self._has_arguments = True
        if isinstance(memory, FileMemory):
            padded = self.settings.padded
            arguments[index] = from_bytes(operand, dimensions, memory.bytes(region), padded)
        else:
            arguments[index] = Argument(operand, memory, dimensions)

    def compute(self) -> None:
        """Computes synchronously."""
        requested = time.monotonic_ns()
        self._begin()
        self._complete(requested, None)

    def start(self) -> Event:
        """Computes on a new thread, or on the one that waits for the event."""
        requested = time.monotonic_ns()
        self._begin()
        event = Event(lambda: self._complete(requested, None), waiters_compute=True)
        return self._started(event)

    def start_after(self, events: Sequence[Event], limit: int | None) -> Event:
        """Computes on a new thread once `events` have ended, then within `limit` nanoseconds."""
        requested = time.monotonic_ns()
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

    def output(self, index: int) -> Argument:
        """Returns an output of a finished computation."""
        if self._state is not ExecutionState.COMPLETED or self._ended not in _WITH_DIMENSIONS:
            raise bad_state("the execution is not completed, or failed")
        found = self._arguments(Direction.OUTPUT, index)[index]
        if found is None:
            raise bad_state("the execution is not completed")
        return found

    @property
    def timing(self) -> Timing:
        """Returns the timing; BAD_STATE if it was not measured or the computation failed."""
        if self._state is not ExecutionState.COMPLETED or self._ended is not ResultCode.NO_ERROR:
            raise bad_state("the execution is not completed, or failed")
        if not self.settings.measure or self._timing is None:
            raise bad_state("the execution was not measured")
        return self._timing

    def _begin(self) -> None:
        """Marks the execution as computing; BAD_STATE while it runs, or if it cannot be reused."""
        with self._lock:
            if self._state is ExecutionState.COMPUTATION:
                raise bad_state("the execution is being computed")
            if self._state is ExecutionState.COMPLETED and not self.settings.reusable:
                raise bad_state("the execution has been computed and is not reusable")
            self._state = ExecutionState.COMPUTATION
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
        targets = [o.target() for o in outputs]
        options = RunOptions(self._remaining(requested, ready, limit), self.settings.loop_timeout)
        started = time.monotonic_ns()
        results = self.compilation.run(inputs, targets, options)
        self._timing = Timing(requested, ready, started, time.monotonic_ns())
        for output, result, target in zip(outputs, results, targets, strict=True):
            output.store(result, target)

    def _remaining(self, requested: int, ready: int, limit: int | None) -> int | None:
        """Returns the nanoseconds left; raises Refused(MISSED_DEADLINE_TRANSIENT) if none are."""
        timeout = self.settings.timeout
        limits = [] if timeout is None else [requested + timeout - time.monotonic_ns()]
        limits += [] if limit is None else [ready + limit - time.monotonic_ns()]
        if limits and min(limits) <= 0:
            raise Refused(ResultCode.MISSED_DEADLINE_TRANSIENT, "the time is over")
        return min(limits, default=None)

    def _set_completed(self, code: ResultCode) -> None:
        with self._lock:
            self._ended = code
            self._state = ExecutionState.COMPLETED

    def _operands(self, direction: Direction) -> tuple[Operand, ...]:
        inward = direction is Direction.INPUT
        return self.compilation.inputs if inward else self.compilation.outputs

    def _arguments(self, direction: Direction, index: int) -> list[Argument | None]:
        arguments = self._inputs if direction is Direction.INPUT else self._outputs
        if not 0 <= index < len(arguments):
            raise bad_data(f"{direction} {index} of {len(arguments)}")
        return arguments

    def _require_unset(self, arguments: list[Argument | None], index: int) -> None:
        if arguments[index] is not None:
            raise bad_state(f"argument {index} is set already")
