"""The choice among the alternatives of a compiled cluster, for the system that it is made on.

Those that the system could run are tried in the order of preference: compiled, then run once, by
the first run of the session, each with a deadline. What declines, fails or takes too long gives way
to the next one. The C plugin's is native/choice.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from logging import INFO, WARNING
from typing import TypeVar

import numpy as np

from ep_nnapi.epcontext.alternatives import Alternative, LaterAlternative, replaces
from ep_nnapi.epcontext.container import ContainerContent, check_programs
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.lowering.border import Allocate, Crossing, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import ModelError, NnapiError, module_logger
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import Fallback, Preferred
from ep_nnapi.provider.alternative_runs import (
    GaveWay,
    OpenAlternative,
    compiled,
    open_litert,
    open_onnx,
    part_runs,
)
from ep_nnapi.provider.cluster_record import ClusterRecord
from ep_nnapi.provider.compiled_cluster import CompiledCluster, DirectRun, Runner
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.devices import NoRuntime
from ep_nnapi.provider.fallback import ClusterRun
from ep_nnapi.provider.trials import DidNotReturn, TrialNote
from ep_nnapi.report.report import ClusterReport

logger = module_logger(__name__)
T = TypeVar("T")
_KINDS: Mapping[Preferred, tuple[AlternativeKind, ...]] = {
    Preferred.NNAPI: (AlternativeKind.NNAPI, AlternativeKind.PARTITION),
    Preferred.NNAPI_CPU: (AlternativeKind.NNAPI, AlternativeKind.PARTITION),
    Preferred.CPU: (AlternativeKind.ONNX,),
}


@frozen
class Tried:
    """An alternative that gave way, such as `nnapi:4 on gpu`, and its runs that ended well."""

    name: str
    reason: str
    runs: int

    def to_json(self) -> dict[str, object]:
        """Plain data for a receipt."""
        return {"alternative": self.name, "reason": self.reason, "runs": self.runs}


@dataclass(frozen=True, slots=True)
class _DeviceAlternative:
    """An alternative, and what computes it; `compiler`: of an NNAPI device."""

    alternative: Alternative | LaterAlternative
    preferred: Preferred
    compiler: Compiler | None = None

    @property
    def name(self) -> str:
        if self.preferred is Preferred.CPU:
            return self.alternative.name
        return f"{self.alternative.name} on {self.device}"

    @property
    def device(self) -> str:
        return self.compiler.device.name if self.compiler else str(self.preferred)


@dataclass
class Choice:
    """What was chosen of a container, and what was tried before; runs may change it.

    report    of the cluster, whose device is that of the candidate
    record    of the runs of all candidates
    proved    True if the one that is chosen has run
    settled   True if it has begun to run with the caller's tensors
    """

    node: int
    report: ClusterReport
    content: ContainerContent
    options: Options
    candidates: tuple[_DeviceAlternative, ...]
    record: ClusterRecord
    tried: list[Tried] = field(default_factory=list)
    current: int = -1
    proved: bool = False
    settled: bool = False
    _opened: dict[int, OpenAlternative] = field(default_factory=dict)
    _stuck: bool = False
    _lock: ForkableLock = field(default_factory=ForkableLock)

    @property
    def chosen(self) -> _DeviceAlternative:
        """The candidate that is chosen."""
        return self.candidates[self.current]

    @property
    def device(self) -> str:
        """The device that computes it."""
        return self.chosen.device

    @property
    def opened(self) -> OpenAlternative:
        """The chosen alternative, compiled: binds the tensors of a run to it."""
        return self._opened[self.current]

    def choose_from(self, first: int) -> bool:
        """Chooses the first candidate from a position on that opens; False if none does."""
        for index in range(first, len(self.candidates)):
            candidate = self.candidates[index]
            try:
                if index not in self._opened:
                    self._check_level(candidate)
                    self._opened[index] = self._open(candidate, self._checked(candidate))
            except GaveWay as failed:
                self._note(candidate, failed)
                continue
            self.current, self.proved = index, candidate.preferred is Preferred.CPU
            self.settled = self.proved
            self._note_of(None).write("chosen", candidate.name)
            return True
        return False

    def _note(self, candidate: _DeviceAlternative, why: GaveWay) -> None:
        known = sum(tried.runs for tried in self.tried)
        self.tried.append(Tried(candidate.name, str(why), self.record.device_runs - known))
        level = WARNING if candidate.compiler else INFO  # few systems have all of LiteRT
        logger.log(level, "%s gave way: %s", candidate.name, why)

    def _open(self, candidate: _DeviceAlternative, alternative: Alternative) -> OpenAlternative:
        if candidate.preferred is Preferred.CPU:
            return self._attempt(alternative, candidate)
        try:
            # a CPU of NNAPI's is not worth that a library ends a start once more
            whole = candidate.preferred is Preferred.NNAPI_CPU
            self._note_of(candidate).check_free(whole=whole)
        except DidNotReturn as ended:
            raise GaveWay(str(ended)) from None
        work = lambda: self._attempt(alternative, candidate)  # noqa: E731
        return self._carry_out(candidate, "compile", work)

    def _checked(self, candidate: _DeviceAlternative) -> Alternative:
        """Reads an alternative; raises GaveWay if it cannot run in the place of the first one."""
        try:
            found = candidate.alternative.opened()
        except ModelError as error:
            raise GaveWay(str(error)) from None
        if not replaces(found.border, self.content.first.border):
            raise GaveWay("it has other tensors or sizes")
        return found

    def _check_level(self, candidate: _DeviceAlternative) -> None:
        """Raises GaveWay for one that is beyond the device."""
        needed, compiler = candidate.alternative.needed, candidate.compiler
        if compiler is not None:
            if isinstance(compiler.runtime, NoRuntime):
                raise GaveWay(compiler.runtime.why)
            level = min(compiler.target.feature_level, compiler.device.feature_level)
            if needed > level:
                raise GaveWay(f"it needs feature level {needed}, the device has {level}")

    def _attempt(self, alternative: Alternative, candidate: _DeviceAlternative) -> OpenAlternative:
        """Compiles an alternative, or a part of it; raises GaveWay."""
        if alternative.parts:
            parts = [self._attempt(part, candidate) for part in alternative.parts]
            return partial(part_runs, alternative, parts)
        try:
            if alternative.kind is AlternativeKind.ONNX:
                return open_onnx(alternative, self.content.weights)
            if alternative.kind is AlternativeKind.LITERT:
                weights = self.content.weights
                return open_litert(alternative, weights, candidate.preferred, self.options)
            return self._compiled(alternative, candidate)
        except GaveWay:
            raise
        except Declined as declined:
            raise GaveWay(declined.detail) from None
        except (NnapiError, RuntimeError) as error:
            raise GaveWay(str(error)) from None
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise GaveWay(f"ONNX Runtime: {error}") from None

    def _compiled(self, alternative: Alternative, candidate: _DeviceAlternative) -> OpenAlternative:
        compiler = candidate.compiler
        if compiler is None:
            raise GaveWay("it needs NNAPI")
        check_programs([alternative])
        placed = compiled(compiler, alternative.lowered)
        whole = candidate.alternative.kind is AlternativeKind.NNAPI
        record = self.record if whole else compiler.new_record()
        cluster = CompiledCluster.of(
            (self.node,), self.report, placed, Fallback.NONE, record=record
        )
        return cluster.bind

    def _carry_out(self, candidate: _DeviceAlternative, doing: str, work: Callable[[], T]) -> T:
        """Does what may not come back, with a deadline, and a note as long as it lasts."""
        note = self._note_of(candidate)
        try:
            return note.within(self.options.trial_timeout, doing, candidate.name, work)
        except DidNotReturn as error:
            self._stuck = True
            raise GaveWay(str(error)) from None

    def _note_of(self, candidate: _DeviceAlternative | None) -> TrialNote:
        """Returns the note about a candidate's device with this model; None: about the choice.

        What ends or hangs a start does so once, whatever alternative of whatever cluster it was
        tried with.
        """
        content = self.content
        model = content.file.encode() if content.file else content.digest
        kind, tried = "c", "choice"
        if candidate is not None and candidate.compiler is not None:
            kind, tried = "n", f"{candidate.device} {candidate.compiler.device.version}"
        elif candidate is not None:
            kind, tried = "l", candidate.device
        return TrialNote.of(self.options.cache_dir, model, kind, tried, content.digest)

    def run(self, bound: Bound, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Runs what is chosen, or the next ones in its place, until one runs.

        If none does, the inputs are to blame: what was chosen stays, and its error is raised.
        """
        if self.proved:
            try:
                self._run_proved(bound, inputs, allocate, stop)
                return
            except (NnapiError, GaveWay) as failure:
                if self.options.fallback is Fallback.NONE:
                    raise _named(failure) from None
        with self._lock:
            self._run_some(bound, inputs, allocate, stop)

    def _run_proved(
        self, bound: Bound, inputs: Sequence[Array], allocate: Allocate, stop: Stop
    ) -> None:
        """Runs what has run; the first time is noted: the trial had other tensors."""
        executor = bound.executor(self)
        if self.settled:
            executor(inputs, allocate, stop)
            return
        self.settled = True
        with self._note_of(self.chosen).written(self.chosen.name):
            executor(inputs, allocate, stop)

    def _run_some(
        self, bound: Bound, inputs: Sequence[Array], allocate: Allocate, stop: Stop
    ) -> None:
        first, proved, tried = self.current, self.proved, len(self.tried)
        error: Exception | None = None
        while True:
            try:
                executor = bound.executor(self)
                if self.proved:
                    executor(inputs, allocate, stop)
                else:
                    self._prove(executor, bound, inputs, allocate)
                self.proved = True
                return
            except (NnapiError, GaveWay) as failure:
                error = error or failure
                self._note(self.chosen, GaveWay(str(failure)))
            if not self.choose_from(self.current + 1):
                del self.tried[tried:]
                self.current, self.proved = first, proved
                raise _named(error)

    def _prove(
        self, executor: ClusterRun, bound: Bound, inputs: Sequence[Array], allocate: Allocate
    ) -> None:
        """Makes the first run, on copies: a run that does not come back must not have others'."""
        types = {c.name: c.dtype.numpy for c in self.content.first.border.outputs}
        given, results = [np.array(array) for array in inputs], dict[int, Array]()

        def made(index: int, shape: tuple[int, ...]) -> Array:
            if index not in results:
                results[index] = np.empty(shape, types[bound.outputs[index]])
            return results[index]

        self._carry_out(self.chosen, "run", lambda: executor(given, made, lambda: None))
        for index, result in results.items():
            np.copyto(allocate(index, result.shape), result)

    def close(self) -> None:
        """Releases what runs, as trials: a driver may not come back from that either.

        Nothing is released if one hangs, which may still use all of it.
        """
        for index in [] if self._stuck else [*self._opened]:
            candidate = self.candidates[index]
            if candidate.preferred is not Preferred.CPU:
                with suppress(GaveWay):
                    self._carry_out(candidate, "end", partial(self._opened.__delitem__, index))

    def to_json(self) -> dict[str, object]:
        """What a receipt says of the choice."""
        known = sum(tried.runs for tried in self.tried)
        return {
            "device": self.device,
            "device_runs": self.record.device_runs - known,
            "alternative": self.chosen.name,
            "tried": [tried.to_json() for tried in self.tried],
        }


@frozen
class ChosenCluster:
    """A cluster with alternatives, of which one is chosen."""

    choice: Choice

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The node."""
        return (self.choice.node,)

    @property
    def report(self) -> ClusterReport:
        """The report, with the device that computes it now."""
        return replace(self.choice.report, device=self.choice.device)

    @property
    def record(self) -> ClusterRecord:
        """Of its runs."""
        return self.choice.record

    @property
    def models(self) -> tuple[Model, ...]:
        """The NNAPI models of what is chosen."""
        chosen = self.choice.chosen.alternative.opened()
        return tuple(a.model for a in (chosen, *chosen.parts) if a.model)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Bound:
        """Returns a runner for inputs and outputs with these names in this order."""
        entering = {c.name: c for c in self.choice.content.first.border.inputs}
        crossings = [entering[name] for name in input_names]
        return Bound(self.choice, tuple(input_names), tuple(output_names), crossings)


@dataclass(slots=True)
class Bound:
    """Runs a cluster with alternatives on inputs of their crossings' sizes alone; thread-safe."""

    choice: Choice
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    crossings: Sequence[Crossing]
    _executors: dict[int, ClusterRun] = field(default_factory=dict)

    def executor(self, choice: Choice) -> ClusterRun:
        """What runs the candidate that is chosen now."""
        index, opened = choice.current, choice.opened
        if index not in self._executors:
            self._executors[index] = opened(self.inputs, self.outputs)
        return self._executors[index]

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes the outputs into the arrays that `allocate` returns."""
        for crossing, array in zip(self.crossings, inputs, strict=True):
            crossing.check_shape(array)
        record = self.choice.record
        start = record.start()
        self.choice.run(self, inputs, allocate, stop)
        if not isinstance(self.executor(self.choice), Runner):  # which counts its runs itself
            record.add_run(None, start)

    def direct_runs(self) -> list[DirectRun]:
        """Returns what may run without this runner; nothing before the second run."""
        executor = self.executor(self.choice) if self.choice.settled else None
        return executor.direct_runs() if isinstance(executor, Runner) else []


def choose(
    node: int,
    report: ClusterReport,
    content: ContainerContent,
    compiler: Compiler,
    options: Options,
) -> ChosenCluster:
    """Returns the cluster with the first alternative that opens here; raises ModelError."""
    candidates = tuple(_candidates(content.given, compiler, options))
    choice = Choice(node, report, content, options, candidates, compiler.new_record())
    if not candidates:
        raise ModelError("no alternative of it is preferred here; change the option prefer")
    if not choice.choose_from(0):
        whys = groupby(choice.tried, lambda tried: tried.reason)
        given = (f"{', '.join(tried.name for tried in group)}: {why}" for why, group in whys)
        raise ModelError(
            "no alternative runs here; prepare the model with others (--alternatives), or change "
            f"the options runtime, device or prefer: {'; '.join(given)}"
        )
    logger.info("%s runs as %s", report.nodes[0], choice.chosen.name)
    return ChosenCluster(choice)


def _candidates(
    alternatives: Sequence[Alternative | LaterAlternative], compiler: Compiler, options: Options
) -> Iterator[_DeviceAlternative]:
    for preferred in options.prefer:
        kinds = _KINDS.get(preferred, (AlternativeKind.LITERT,))
        fitting = [a for a in alternatives if a.kind in kinds]
        if AlternativeKind.NNAPI not in kinds:
            yield from (_DeviceAlternative(a, preferred) for a in fitting)
            continue
        for device in _devices(preferred, compiler, options):
            at = replace(compiler, device=device, fast=())
            yield from (_DeviceAlternative(a, preferred, at) for a in fitting)


def _devices(preferred: Preferred, compiler: Compiler, options: Options) -> list[Device]:
    """Accelerators, or CPUs; the session's own alone if it was asked for."""
    if isinstance(compiler.runtime, NoRuntime):
        stand_in = replace(compiler.device, name=str(Preferred.NNAPI), version="")
        return [stand_in] if preferred is Preferred.NNAPI else []
    if options.device is not None:
        return [compiler.device] if preferred is Preferred.NNAPI else []
    is_cpu = preferred is Preferred.NNAPI_CPU
    found = [d for d in compiler.runtime.devices() if (d.type is DeviceCode.CPU) is is_cpu]
    return sorted(found, key=lambda device: device.name == REFERENCE_DEVICE)  # the slowest last


def _named(error: Exception) -> Exception:
    """Returns the error of a run as sessions raise it."""
    return ModelError(str(error)) if isinstance(error, GaveWay) else error
