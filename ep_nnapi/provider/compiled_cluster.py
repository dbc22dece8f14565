"""Execution of compiled clusters, with fallback when the device fails, and without Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ep_nnapi.lowering.border import Allocate, BoundBorder, OtherInput, Place, Stop, Unconverted
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import ResultCode, result_code
from ep_nnapi.nnapi.errors import RuntimeFailure, Unresponsive, module_logger
from ep_nnapi.nnapi.expressions import Condition, Symbols
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    RunOptions,
    direct_session,
)
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.cluster_record import (
    ClusterRecord,
    CountDirectRuns,
    RunEvents,
    note_fallback,
    run_with_events,
)
from ep_nnapi.provider.compiler import Compiler, Placed
from ep_nnapi.provider.device_health import RETRY_DELAY, Declined, repeatable
from ep_nnapi.provider.fallback import (
    ClusterRun,
    CpuModel,
    cpu_executor,
    is_on_reference,
    reference_executor,
)
from ep_nnapi.report.report import CPU_FALLBACK, ClusterReport, Phase, Substitute

logger = module_logger(__name__)


@immutable
class CompiledCluster:
    """One cluster, compiled for one device.

    cpu       its ONNX nodes for the CPU provider, if the option `fallback` is CPU or inputs may
              have other shapes than the model declares, or other numbers; else None
    compiler  compiled it; compiles it again after its driver has died
    record    of its compilations and runs
    symbols   values of the symbols of its model's sizes; None if these are numbers
    """

    node_ids: tuple[int, ...]
    report: ClusterReport
    lowered: Lowered
    compilation: Compilation
    compiler: Compiler
    fallback: Fallback
    cpu: CpuModel | None = None
    record: ClusterRecord = field(default_factory=ClusterRecord, compare=False)
    symbols: Symbols | None = None

    @staticmethod
    def of(
        node_ids: tuple[int, ...],
        report: ClusterReport,
        placed: Placed,
        fallback: Fallback,
        cpu: CpuModel | None = None,
        record: ClusterRecord | None = None,
    ) -> CompiledCluster:
        """Returns the cluster on the device that it was compiled for, which its report names.

        record   default: a new one
        """
        record = placed.compiler.new_record() if record is None else record
        record.add_compilation(placed.lowered.model, placed.nanoseconds, placed.substitute)
        return CompiledCluster(
            node_ids,
            replace(report, device=placed.device.name, substitute=placed.substitute),
            placed.lowered,
            placed.compilation,
            placed.compiler,
            fallback,
            cpu,
            record=record,
        )

    @property
    def models(self) -> tuple[Model, ...]:
        """The NNAPI model of this cluster, for numbers."""
        model = self.lowered.members.model
        return (model if self.symbols is None else model.bind(self.symbols),)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """Returns a runner for inputs and outputs with these names in this order."""
        border = self.lowered.border.bind(input_names, output_names)
        names = tuple(input_names), tuple(output_names)
        compilations = {self.compiler.current.options: self.compilation}
        return Runner(self, border, *names, compilations)


@dataclass(slots=True)
class Runner:
    """Runs a cluster; thread-safe."""

    cluster: CompiledCluster
    border: BoundBorder
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _compilations: dict[CompileOptions, Compilation]
    _replaced: tuple[ClusterRun, Substitute] | None = None
    _warned: bool = False
    _lock: ForkableLock = field(default_factory=ForkableLock)

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes the outputs into the arrays that `allocate` returns.

        If the device fails, after a second try where that may help, this and all later runs use the
        option `fallback`, and a warning is logged. Raises RuntimeFailure if there is no fallback.
        A run with inputs that the cluster is not compiled for uses the CPU provider; the first one
        logs a warning. Raises OtherInput if the cluster has no CPU model.
        """
        run = partial(self._run, inputs, allocate, stop)
        record = self.cluster.record
        start = record.start()
        by = run_with_events(self.cluster.compiler.listeners, self.cluster.report, run)
        record.add_run(by, start)

    def direct_runs(self) -> list[DirectRun]:
        """Returns what may run without this runner, as it is now; nothing if runs need it."""
        compiler = self.cluster.compiler
        compilation = self._compilations.get(compiler.current_of_session.options)
        if self._replaced is not None or compilation is None:
            return []
        run = direct_run(compiler, compilation, self.border)
        if run is None:
            return []
        record, by = self.cluster.record, self.cluster.report.substitute
        count = partial(record.add_direct_runs, by)
        return [replace(run, count=count, timed=record.timed, by=by)]

    def _run(
        self, inputs: Sequence[Array], allocate: Allocate, stop: Stop, events: RunEvents | None
    ) -> Substitute | None:
        """Runs the cluster; returns what computed it in place of the device, if anything did."""
        replaced = self._replaced or self._replaced_if_left_out()
        if replaced is not None:
            executor, by = replaced
            note_fallback(events, self.cluster.fallback)
            executor(inputs, allocate, stop)
            return by
        buffers: dict[int, Array] = {}

        def allocate_once(index: int, shape: tuple[int, ...]) -> Array:
            if index not in buffers:
                buffers[index] = allocate(index, shape)
            return buffers[index]

        try:
            self._run_on_device(inputs, allocate_once, stop, events)
            return self.cluster.report.substitute
        except RuntimeFailure as failure:
            named = failure.of_cluster(self.cluster.report.nodes)
            executor, by = replaced = self._fallback_for(named, str(failure))
            note_fallback(events, self.cluster.fallback)
            try:
                executor(inputs, allocate_once, stop)
            except Exception:
                if not isinstance(failure, Unresponsive):
                    raise  # no device computes these inputs: this one is not to blame
                self._replace_device(replaced, named)
                raise
            self._replace_device(replaced, named)
            return by
        except OtherInput as other:
            note_fallback(events, Fallback.CPU)
            self._cpu_executor_for(other)(inputs, allocate_once, stop)
            return self._in_place(CPU_FALLBACK, other.kind)

    def _in_place(self, to: str, reason: str) -> Substitute:
        """Returns that runs are computed elsewhere than on the device that was meant at first."""
        return Substitute(self.cluster.report.intended_device, to, Phase.RUN, reason)

    def _run_on_device(
        self, inputs: Sequence[Array], allocate: Allocate, stop: Stop, events: RunEvents | None
    ) -> None:
        compiler = self.cluster.compiler
        measure = self.cluster.record.durations.append if compiler.measure else None
        listen = None if events is None else events.on_operation
        current = compiler.current
        limits = current.limits
        options = RunOptions(limits.timeout_ns, limits.loop_timeout_ns, stop, measure, listen)
        compilation = self._compilation_with(current.options)
        try:
            self.border.run(compilation, inputs, allocate, options)
        except RuntimeFailure as failure:
            if not repeatable(failure):
                raise
            logger.info("once more on %s: %s", self.cluster.report.device, failure)
            if result_code(failure) is ResultCode.DEAD_OBJECT:
                compilation = self._compile_again(compilation, failure)
            time.sleep(RETRY_DELAY)
            self.border.run(compilation, inputs, allocate, options)

    def _compilation_with(self, wanted: CompileOptions) -> Compilation:
        """Returns the compilation with these options, made when they are first used.

        If the device does not compile with them, an earlier one is used, with a warning.
        """
        if wanted not in self._compilations:
            with self._lock:
                if wanted not in self._compilations:
                    try:
                        latest = self._compiled_once_more()
                    except Declined as declined:
                        logger.warning("compiled as before: %s", declined.detail)
                        latest = next(iter(self._compilations.values()))
                    self._compilations[wanted] = latest
        return self._compilations[wanted]

    def _compiled_once_more(self) -> Compilation:
        """Returns a new compilation with the current options, on record; raises Declined."""
        placed = self.cluster.compiler.compile(self.cluster.lowered)
        record, model = self.cluster.record, placed.lowered.model
        record.add_compilation(model, placed.nanoseconds, self.cluster.report.substitute)
        return placed.compilation

    def _compile_again(self, dead: Compilation, failure: RuntimeFailure) -> Compilation:
        """Replaces the compilation of a driver that has died, once for all threads."""
        wanted = self.cluster.compiler.current.options
        with self._lock:
            if self._compilations[wanted] is dead:
                try:
                    self._compilations[wanted] = self._compiled_once_more()
                except Declined:
                    raise failure from None
            return self._compilations[wanted]

    def _replaced_if_left_out(self) -> tuple[ClusterRun, Substitute] | None:
        """Returns the fallback if the device is left out for its failures elsewhere; else None."""
        compiler = self.cluster.compiler
        why = compiler.health.left_out(compiler.device.name)
        if why is None:
            return None
        with self._lock:
            if self._replaced is None:
                self._replaced = self._fallback(why)
        return self._replaced

    def _cpu_executor_for(self, other: OtherInput) -> ClusterRun:
        """Returns the CPU provider's engine for this run; raises `other` without a CPU model."""
        if self.cluster.cpu is None:
            raise other
        with self._lock:
            if not self._warned:
                nodes = ", ".join(self.cluster.report.nodes)
                logger.warning("runs of the cluster of %s on the CPU provider: %s", nodes, other)
                self._warned = True
        return cpu_executor(self.cluster.cpu, self.inputs, self.outputs)

    def _fallback_for(self, failure: RuntimeFailure, reason: str) -> tuple[ClusterRun, Substitute]:
        """Returns the fallback of a run that the device failed in; raises `failure` without one."""
        with self._lock:
            self.cluster.record.failures.add(failure)
            replaced = self._replaced or self._fallback(reason)
        if replaced is None:
            compiler = self.cluster.compiler
            if not is_on_reference(compiler):  # there the model is at fault, not the device
                compiler.health.report(self.cluster.report.device, failure)
            raise failure
        return replaced

    def _replace_device(
        self, replaced: tuple[ClusterRun, Substitute], failure: RuntimeFailure
    ) -> None:
        """Makes the fallback run the cluster from now on, with a warning the first time."""
        with self._lock:
            if self._replaced is not None:
                return
            self._replaced = replaced
        self.cluster.compiler.health.report(self.cluster.report.device, failure)
        about = self.cluster.report.device, failure, self.cluster.fallback
        logger.warning("device %s failed (%s); fallback=%s from now on", *about)

    def _fallback(self, reason: str) -> tuple[ClusterRun, Substitute] | None:
        """Returns what runs the cluster in place of its device; None if nothing may."""
        if self.cluster.cpu is not None and self.cluster.fallback is Fallback.CPU:
            executor = cpu_executor(self.cluster.cpu, self.inputs, self.outputs)
            return executor, self._in_place(CPU_FALLBACK, reason)
        compiler = self.cluster.compiler
        if self.cluster.fallback is not Fallback.REFERENCE or is_on_reference(compiler):
            return None
        border, lowered = self.border, self.cluster.lowered
        if lowered.expand is not None:
            sized = lowered.members.border.with_sizes(self.cluster.symbols or {})
            border = sized.bind(self.inputs, self.outputs)
        try:
            (model,) = self.cluster.models
        except ValueError:  # sizes that hold for the operators, but not for their members
            return None
        executor = reference_executor(compiler, model, border)
        return executor, self._in_place(REFERENCE_DEVICE, reason)


@frozen
class OpenSizes:
    """What the sizes of a run's inputs must meet, where others than those of one run will do.

    symbols  for each symbol the position of an input that has it as a size, and the axis; or True
             and the position among the contents of an input of integers
    """

    symbols: Mapping[str, tuple[int, int, bool]]
    conditions: tuple[Condition, ...]


@frozen
class DirectRun:
    """A session of ONNX Runtime, or a `Program`, that computes a cluster, and its tensors there.

    given  inputs of the cluster: it computes those of these shapes and contents
    used   to be called for runs of the session that its runner knows nothing of
    count  takes what returns the number and, if they are `timed`, the times of such runs
    by     equal for runs that are counted together
    sizes  where the shapes in `tensors` and `given` have a `Size`; None if there is none
    """

    session: object
    tensors: Unconverted
    given: tuple[Place, ...]
    used: Callable[[], object] = lambda: None
    count: Callable[[CountDirectRuns], object] = lambda _: None
    timed: bool = False
    by: object = None
    sizes: OpenSizes | None = None


def direct_run(
    compiler: Compiler, compilation: Compilation, border: BoundBorder
) -> DirectRun | None:
    """Returns what computes the cluster, as long as the compiler's options stay as they are.

    None if the border converts more than INT64 to INT32 and back, or if runs are limited or
    listened to. No session of ONNX Runtime measures what `Compiler.measure` asks for.
    """
    tensors = border.unconverted
    if (
        tensors is None
        or compiler.listeners
        or compiler.current_of_session.limits.timeout_ns is not None
    ):
        return None
    session = direct_session(compilation)
    return None if session is None else DirectRun(session, tensors, tensors.inputs)
