"""The NNAPI library behind an agent as a Runtime."""

from __future__ import annotations

import hashlib
import shlex
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from ep_nnapi.epcontext.container import WeightsLocation, pack
from ep_nnapi.epcontext.pool import padded
from ep_nnapi.lowering.border import Border
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.clock import RUN_CLOCK
from ep_nnapi.nnapi.codes import COMPUTE
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import (
    CompileOptions,
    Device,
    Duration,
    RunOptions,
    checked,
    delivered,
    fits,
)
from ep_nnapi.nnapi.validate import validate
from ep_nnapi.remote.adb import agent_command, phones
from ep_nnapi.remote.agent import LIMIT, QUESTION_LIMIT, QUESTIONS, Agent
from ep_nnapi.remote.stream import ALIGNMENT, Kind, Lost, Parts, Stream

_EMBEDDED = 1 << 16
"""Bytes of weights up to which they travel with their model."""
_SLACK = 1.0
"""Least seconds that a job may take longer than its own timeout, before the agent ends it."""

_COMPILE = struct.Struct("<QII")
_ORDER = struct.Struct("<QQIII")
_END = struct.Struct("<iI")
_TIMES = struct.Struct("<QQQ")
_UNMEASURED = 2**64 - 1
_MEASURE = 1
_OMITTED = -1


class RemoteRuntime:
    """The runtime of an agent; see `Runtime` for the methods. Thread-safe.

    An agent that is lost is started again when the next model is asked about or compiled.

    name     of the runtime, for messages
    command  returns what starts the agent; raises OptionError
    """

    def __init__(self, name: str, command: Callable[[], Sequence[str]]) -> None:
        """Start the agent; raises OptionError if that fails."""
        self._name = name
        self._command = command
        self._lock = ForkableLock()
        self._agent = self._started()

    def _started(self) -> Agent:
        command = self._command()
        try:
            stream = Stream(command)
            try:
                return Agent(self._name, stream)
            except BaseException:
                stream.close()
                raise
        except OSError as error:
            why = f"{command[0]} cannot be started: {error.strerror}"
        except Lost as error:
            why = f"no agent answers: {error}"
        raise OptionError(f"{self._name}: {why}")

    def agent(self, call: str = "Compilation_create") -> Agent:
        """The agent; a lost one is started again.

        call  the NNAPI call that the failure to do so is of
        Raises RuntimeFailure.
        """
        with self._lock:
            if not self._agent.usable:
                self._agent.close()
                try:
                    self._agent = self._started()
                except OptionError as error:
                    raise self._agent.lost(call, str(error)) from None
            return self._agent

    @property
    def about(self) -> str:
        """The release of the last agent, and Android's name of its processor."""
        return f"{self._agent.release} on {self._agent.abi}"

    @property
    def feature_level(self) -> int:
        """The library's feature level, 1 to 8."""
        return self._agent.feature_level

    def devices(self) -> tuple[Device, ...]:
        """The library's devices."""
        return self._agent.devices

    def share(self, model: Model) -> Model:
        """The model itself: its constants are sent."""
        return model

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if `device` supports it."""
        validate(model, self.feature_level)
        call = "Model_getSupportedOperationsForDevices"
        agent = self.agent(call)
        with agent.requests() as request:
            _send(agent, request, model, QUESTIONS, QUESTION_LIMIT)
            about = device.name.encode()
            answers = request(call, Kind.SUPPORTED, (about,), QUESTIONS, QUESTION_LIMIT)
        if len(answers) != len(model.operations):
            agent.close()
            raise agent.lost(call, "it answers for another number of operations")
        return tuple(answers.astype(bool).tolist())

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> RemoteCompilation:
        """Compile `model` for `device` only; the agent keeps no compilation cache."""
        validate(model, self.feature_level)
        chosen = options or CompileOptions()
        limit, call = _limit(chosen.timeout_ns), "Compilation_finish"
        about = _COMPILE.pack(chosen.timeout_ns or 0, chosen.preference, chosen.priority)
        agent = self.agent(call)
        job = agent.new_job()
        compiled = RemoteCompilation(agent, job, model)
        with agent.requests() as request:
            _send(agent, request, model, job, limit)
            request(call, Kind.COMPILE, (about, device.name.encode()), job, limit)
        return compiled


def _limit(timeout_ns: int | None) -> float:
    """The limit in seconds of a request with a timeout, which the device itself should keep."""
    if timeout_ns is None:
        return LIMIT
    return (timeout_ns + max(timeout_ns / 4, _SLACK * 1e9)) / 1e9


def _send(
    agent: Agent, request: Callable[..., Array], model: Model, job: int, limit: float
) -> None:
    """Makes `model` the job's; its weights go before it unless the agent has them."""
    alone = replace(model, composites=())
    container = pack(Lowered(alone, Border((), ())))
    if container.size <= _EMBEDDED:
        program = container.with_embedded_weights()
    else:
        blocks = list(padded(container.weights))
        weights = np.frombuffer(b"".join(blocks), np.uint8)
        digest = hashlib.sha256(weights.data).digest()
        agent.put(request, digest, weights)
        name = f"weights-{digest.hex()}"
        location = WeightsLocation(name, 0, weights.size, weights.size, digest)
        program = container.with_external_weights(location)
    request("Model_finish", Kind.MODEL, (program,), job, limit)


@dataclass(frozen=True, slots=True)
class BurstRuns:
    """Results of runs of the same inputs: the outputs, and of each run its time on the device.

    nanoseconds  of each run, from the call of the library to its return
    durations    of each run, as the device measured it
    """

    outputs: list[Array]
    nanoseconds: tuple[int, ...]
    durations: tuple[Duration, ...]


class RemoteCompilation:
    """A compiled model in a worker of an agent; thread-safe, its runs follow one another."""

    def __init__(self, agent: Agent, job: int, model: Model) -> None:
        self._agent = agent
        self._job = job
        self._inputs = tuple(model.operands[i] for i in model.inputs)
        self._outputs = tuple(model.operands[i] for i in model.outputs)
        weakref.finalize(self, agent.free, job).atexit = False

    def run(
        self, inputs: Arrays, outputs: Arrays = (), options: RunOptions | None = None
    ) -> list[Array]:
        """Run the model, as `runtime.Compilation.run`."""
        options = options or RunOptions()
        given = checked(inputs, outputs, self._inputs, self._outputs)
        if options.stop is not None:
            options.stop()
        done = self.burst(inputs, 1, options)
        if options.measure is not None and done.durations[0] != Duration(None, None):
            options.measure(done.durations[0])
        return [*map(delivered, done.outputs, given)]

    def burst(self, inputs: Arrays, runs: int, options: RunOptions | None = None) -> BurstRuns:
        """Run the model a number of times with the same inputs, without a pause for the stream."""
        options = options or RunOptions()
        if not self._agent.usable:
            raise self._agent.lost(COMPUTE)
        payload = self._payload(inputs, runs, options)
        limit = _limit(options.timeout_ns) * (runs if options.timeout_ns else 1)
        with self._agent.requests() as request:
            start = time.perf_counter_ns()
            reply = request(COMPUTE, Kind.RUN, payload, self._job, limit)
        with self._agent.understanding(COMPUTE):
            found = self._read(reply, runs)
        RUN_CLOCK.take_out(time.perf_counter_ns() - start - sum(found.nanoseconds))
        return found

    def _payload(self, inputs: Arrays, runs: int, options: RunOptions) -> Parts:
        flags = _MEASURE if options.measure is not None else 0
        limits = options.timeout_ns or 0, options.loop_timeout_ns or 0
        parts = [_ORDER.pack(*limits, flags, runs, len(inputs))]
        for array in inputs:
            if array is None:
                parts.append(_END.pack(_OMITTED, 0))
            else:
                parts.append(_END.pack(array.ndim, array.nbytes))
                parts.append(struct.pack(f"<{array.ndim}I", *array.shape))
        head = b"".join(parts)
        payload: list[bytes | memoryview] = [head]
        size = len(head)
        for array in inputs:
            padding = -size % ALIGNMENT
            content = b"" if array is None else _content(array)
            payload += (bytes(padding), content)
            size += padding + len(content)
        return payload

    def _read(self, reply: Array, runs: int) -> BurstRuns:
        data = reply.data
        times = [_TIMES.unpack_from(data, i * _TIMES.size) for i in range(runs)]
        at = runs * _TIMES.size
        ends = []
        for _ in self._outputs:
            rank, size = _END.unpack_from(data, at)
            shape = struct.unpack_from(f"<{rank}I", data, at + _END.size)
            ends.append((shape, size))
            at += _END.size + 4 * rank
        outputs = []
        for operand, (shape, size) in zip(self._outputs, ends, strict=True):
            at += -at % ALIGNMENT
            outputs.append(_tensor(operand, reply[at : at + size], shape))
            at += size
        durations = tuple(
            Duration(_known(hardware), _known(driver)) for _, hardware, driver in times
        )
        return BurstRuns(outputs, tuple(ns for ns, _, _ in times), durations)


def _content(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _tensor(operand: Operand, data: Array, shape: tuple[int, ...]) -> Array:
    found = data.view(operand.type.numpy).reshape(shape)
    if not fits(found, operand):
        raise ValueError(f"an output of sizes {list(shape)} for {list(operand.dimensions)}")
    return found


def _known(nanoseconds: int) -> int | None:
    return None if nanoseconds == _UNMEASURED else nanoseconds


_lock = ForkableLock()


def remote_runtime(name: str) -> RemoteRuntime:
    """The runtime of that name, one for all sessions and threads of this process.

    Raises OptionError if there is no such phone, or if no agent answers.
    """
    with _lock:
        return _opened(name)


@cache
def _opened(name: str) -> RemoteRuntime:
    return RemoteRuntime(name, _command(name))


def reached(name: str) -> tuple[str, ...]:
    """The runtimes that `name` stands for: "adb" for adb:SERIAL of each phone, ready or not.

    Raises OptionError if no phone is attached.
    """
    return tuple(f"adb:{serial}" for serial in phones()) if name == "adb" else (name,)


def _command(name: str) -> Callable[[], list[str]]:
    how, _, rest = name.partition(":")
    if how == "adb":
        return partial(agent_command, rest)
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise OptionError(f"runtime {name}: the command is no shell's: {error}") from None
    if not words:
        raise OptionError(f"runtime {name!r}: a command is missing after exec:")
    return words.copy
