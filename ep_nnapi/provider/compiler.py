"""Lowering and compilation of one cluster for a device."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache, partial

from ep_nnapi.capability.call_checks import NO_ELEMENTS
from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.costs import work
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.inner_transposes import with_inner_transposes
from ep_nnapi.lowering.model_builder import Lowered, lower
from ep_nnapi.lowering.permutes import Permute, UnsupportedPermute
from ep_nnapi.lowering.whole_operators import with_whole_operators
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure, SpecError, Unresponsive, module_logger
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.open_dimensions import LEVEL
from ep_nnapi.nnapi.runtime import (
    Compilation,
    CompileOptions,
    Device,
    ExaminedDevice,
    ExplainingRuntime,
    RunOptions,
    Runtime,
    SizedRuntime,
    Spin,
)
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.options.target import Target
from ep_nnapi.provider.cluster_record import ClusterRecord, Listener
from ep_nnapi.provider.device_health import TOO_LARGE, Declined, DeviceHealth, health_of, repeated
from ep_nnapi.provider.dynamic_options import Current, ThisRun
from ep_nnapi.provider.retracing import difference
from ep_nnapi.provider.tracing import Traced, Tracing
from ep_nnapi.report.report import Phase, Substitute
from ep_nnapi.sizes.bind import bind_shapes
from ep_nnapi.sizes.int64_ranges import NO_RANGES, Interval, mark_int32_ranges
from ep_nnapi.sizes.symbols import Shapes

logger = module_logger(__name__)


@immutable
class Placed:
    """A cluster compiled for one device.

    nanoseconds  time of the compilation
    substitute   how the device took the place of one that did not compile the cluster, if it did
    """

    lowered: Lowered
    compilation: Compilation
    compiler: Compiler
    nanoseconds: int
    substitute: Substitute | None = None

    @property
    def device(self) -> Device:
        """The device."""
        return self.compiler.device


@frozen
class Compiler:
    """Lowers and compiles clusters for one target.

    device    the device that decides which operations are taken
    options   of compilations at first
    limits    of runs at first
    changes   the last change of both, for later compilations and runs; empty before the first
    this_run  options of the run of each thread, if it has its own
    listeners called with the events of runs while a profile is recorded
    measure   True if the device measures its runs, where it can
    timed     True if the runs of clusters are timed
    alone     True if a session does nothing but run one cluster: threads of its device may spin
              between runs
    fast      devices that a cluster is compiled for instead if they support all of its operations:
              the first one that does
    """

    target: Target
    runtime: Runtime
    device: Device
    options: CompileOptions = field(default_factory=CompileOptions)
    limits: RunOptions = field(default_factory=RunOptions)
    measure: bool = False
    timed: bool = False
    alone: bool = False
    fast: tuple[Device, ...] = ()
    changes: deque[Current] = field(default_factory=lambda: deque(maxlen=1), compare=False)
    this_run: ThisRun = field(default_factory=ThisRun, compare=False)
    listeners: list[Listener] = field(default_factory=list, compare=False)

    @property
    def current(self) -> Current:
        """The options of compilations and the limits of runs, as they are now on this thread."""
        return self.this_run.current or self.current_of_session

    @property
    def current_of_session(self) -> Current:
        """The same for runs without options of their own."""
        return self.changes[-1] if self.changes else Current(self.options, self.limits)

    @property
    def health(self) -> DeviceHealth:
        """The failures of the runtime's devices."""
        return health_of(self.runtime)

    @property
    def takes_sizes(self) -> bool:
        """True if a device may compile models whose sizes are open, or are expressions."""
        return self.target.feature_level >= LEVEL or self.takes_expressions

    @property
    def takes_expressions(self) -> bool:
        """True if a device compiles models whose sizes are expressions."""
        runtime = self.runtime
        return isinstance(runtime, SizedRuntime) and any(
            runtime.takes_sizes(device) for device in (*self.fast, self.device)
        )

    def new_record(self) -> ClusterRecord:
        """Returns a record for a cluster that has not been compiled yet."""
        return ClusterRecord(timed=self.timed)

    def lower(
        self,
        members: Sequence[CapableNode],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
    ) -> Lowered:
        """Returns the NNAPI model of a cluster, all of it supported by the device.

        If the device declines only permutes, they are moved to the border and lowering is repeated.
        Raises Declined if the device declines other operations, if the model has no inputs, or if a
        permute cannot be moved: then it names the nodes before or after it, to split the cluster.
        """
        declined_permutes: set[Permute] = set()
        while True:
            lowered = self.prepare(self._written(members, inputs, outputs, declined_permutes))
            declined = self._unsupported_operations(lowered)
            if not declined:
                return lowered
            if not declined <= lowered.permutes.keys():
                raise self._declined(lowered, declined - lowered.permutes.keys())
            declined_permutes.update(lowered.permutes[i] for i in declined)

    def _written(
        self,
        members: Sequence[CapableNode],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        declined_permutes: Collection[Permute] = (),
        whole: Collection[str] = (),
    ) -> Lowered:
        """Returns the same, whether the device supports it or not.

        whole   names of operators without members in the model
        """
        why = self.health.left_out(self.device.name)
        if why is not None:
            names = [part.name for m in members for part in m.node.originals]
            raise Declined(names, Reason.DRIVER, why)
        _check_elements(members, outputs)
        calls = with_whole_operators((call for m in members for call in m.calls), whole)
        try:
            lowered = lower(calls, inputs, outputs, self.target, declined=declined_permutes)
        except UnsupportedPermute as unsupported:
            side = _side_with_less_work(members, unsupported)
            raise Declined(side, unsupported.reason, unsupported.detail) from None
        if not lowered.model.inputs:
            detail = "its cluster depends on constants only; an NNAPI model needs an input"
            raise Declined((), Reason.CONSTANT_NODE, detail)
        return lowered

    def prepare(self, lowered: Lowered) -> Lowered:
        """Returns the lowered cluster as `check_supported` and `compile` take it.

        Its constants are where the runtime reads them, and for the devices of `fast` it has its
        variant with inner transposes: one object, which they convert once. Raises Declined if there
        is no memory for the constants.
        """
        try:
            model = self.runtime.share(lowered.model)
        except RuntimeFailure as failure:
            raise self._compilation_failure(failure) from None
        shared = lowered if model is lowered.model else replace(lowered, model=model)
        if not self.fast:
            return shared
        inner = with_inner_transposes(shared)
        if lowered.expand is not None:
            made = cache(lambda: self.prepare(lowered.members))
            shared = replace(shared, expand=made)
            inner = replace(inner or shared, expand=lambda: made().inner or made())
        return replace(shared, inner=inner)

    def check_supported(self, lowered: Lowered) -> None:
        """Raises Declined with the unsupported nodes unless the device supports all operations."""
        declined = self._unsupported_operations(lowered)
        if declined:
            raise self._declined(lowered, declined)

    def _unsupported_operations(self, lowered: Lowered) -> set[int]:
        """Returns the indexes of the operations that the device does not support.

        If one of `fast` supports all of the variant that `place` chooses, that is the one which the
        device would compile after it; as a rule the variants are checked and converted no further.
        """
        placed, _ = self.place(lowered)
        if placed is not lowered and not self._unsupported_on(self.device, placed):
            return set()
        return self._unsupported_on(self.device, lowered)

    def _unsupported_on(self, device: Device, lowered: Lowered) -> set[int]:
        try:
            answers = repeated(lambda: self.runtime.supported(lowered.model, device))
        except (RuntimeFailure, SpecError) as failure:
            raise replace(self, device=device)._compilation_failure(failure) from None
        return {i for i, yes in enumerate(answers) if not yes}

    def _declined(self, lowered: Lowered, declined: Iterable[int]) -> Declined:
        indexes = sorted(declined)
        operations = lowered.model.operations

        def names(of: Iterable[int]) -> set[str]:
            return {name for i in of for name in operations[i].origin}

        if isinstance(self.runtime, ExaminedDevice):
            known = self.runtime.verdicts(lowered.model, indexes)
            first = next(iter(known.values()), None)
            if first is not None:  # the others when the rest is lowered again
                return Declined(names(i for i in known if known[i] == first), *first)
        kinds = ", ".join(sorted({operations[i].spec.name for i in indexes}))
        by = ""
        if isinstance(self.runtime, ExplainingRuntime):
            by = self.runtime.explanation(lowered.model, indexes)
        why = f"{self.device.name} declines {kinds}" + (f" ({by})" if by else "")
        return Declined(names(indexes), Reason.DRIVER, why)

    def place(self, lowered: Lowered) -> tuple[Lowered, Device]:
        """Returns the device for a cluster, and the cluster as it is compiled for that device."""
        for device in self.fast:
            candidate = lowered.inner or lowered
            if not self._unsupported_on(device, candidate):
                return candidate, device
        return lowered, self.device

    def compile(self, lowered: Lowered) -> Placed:
        """Returns the compiled model; raises Declined if the device fails to compile it."""
        placed, device = self.place(lowered)
        options = self.current.options
        if self.alone:
            options = replace(options, spin=Spin.ALWAYS)
        start = time.perf_counter_ns()
        try:
            compiled = repeated(lambda: self.runtime.compile(placed.model, device, options))
        except Unresponsive as failure:
            self.health.report(device.name, failure)
            raise self._compilation_failure(failure) from None
        except (RuntimeFailure, SpecError) as failure:
            if device == self.device:
                raise self._compilation_failure(failure) from None
            logger.warning("%s did not compile a cluster: %s", device.name, failure)
            substitute = Substitute(device.name, self.device.name, Phase.COMPILE, str(failure))
            by_members = replace(self, fast=()).compile(lowered.members)
            return replace(by_members, substitute=substitute)
        placed_on = (
            self
            if device == self.device and not self.fast
            else replace(self, device=device, fast=())
        )
        return Placed(placed, compiled, placed_on, time.perf_counter_ns() - start)

    def lower_for_shapes(self, cluster: Graph, shapes: Shapes) -> Lowered:
        """Returns the NNAPI model of a cluster with symbolic dimensions, for input `shapes`.

        Raises Declined if the cluster cannot be lowered for these shapes.
        """
        graph, members = self._judged(cluster, shapes)
        return self.lower(members, graph.inputs, graph.outputs)

    def lower_traced(self, cluster: Graph, shapes: Shapes) -> Lowered:
        """Returns the same for all sizes that meet the conditions of its model.

        Every open dimension of more than one element is a symbol; others are these numbers. What
        nodes are lowered to is compared with the same for others. No device is asked.
        Raises Declined as `lower_for_shapes`, or if it holds for no other sizes.
        """
        traced = self._traced(cluster, Tracing.of(cluster.inputs, shapes))
        if traced.tracing.coincides:
            with suppress(Declined):  # sizes that must be equal are rejected by the nodes
                apart = self._traced(cluster, traced.tracing.apart)
                traced = min(traced, apart, key=lambda t: len(t.tracing.trace.equal))
        return self.proved(traced)

    def proved(self, traced: Traced) -> Lowered:
        """Returns a traced cluster as it was lowered; raises Declined as `lower_traced`."""
        lowered, tracing = traced.lowered, traced.tracing
        conditions = lowered.model.conditions
        other = next(tracing.others(conditions), None) or tracing.keep_one(conditions)
        if other is None:
            held = "; ".join(map(str, conditions))
            raise Declined((), Reason.SHAPE, f"its model holds for these sizes alone: {held}")
        why = difference(traced.members, other, tracing.trace, self.target)
        if why:
            raise Declined((), Reason.SHAPE, f"its model for other sizes differs: {why}")
        model = replace(lowered.model, conditions=tracing.trace.conditions)
        return replace(lowered, model=model.with_matches(lowered.model))

    def _traced(self, cluster: Graph, tracing: Tracing) -> Traced:
        cluster = replace(cluster, inputs=tuple(tracing.inputs))
        graph, members = self._judged(cluster, tracing.shapes, tracing.ranges, tracing.trace)
        return self.traced(tracing, members, graph.inputs, graph.outputs)

    def traced(
        self,
        tracing: Tracing,
        members: Sequence[CapableNode],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
    ) -> Traced:
        """Returns the lowered cluster of nodes whose sizes are those of the tracing.

        Operators that the first device of `fast` computes without their members are whole.
        """

        def written(whole: Collection[str]) -> Lowered:
            return tracing.completed(self._written(members, inputs, outputs, whole=whole))

        names = self._whole_operators
        if any(call.whole and call.whole.name in names for m in members for call in m.calls):
            with suppress(Declined):  # permutes between operators and others
                made = replace(written(names), expand=cache(partial(written, ())))
                return Traced(tracing, made, members)
        return Traced(tracing, written(()), members)

    @property
    def _whole_operators(self) -> Collection[str]:
        """Names of the operators that its first fast device computes whole."""
        if not (self.fast and isinstance(self.runtime, SizedRuntime)):
            return ()
        return self.runtime.whole_operators(self.fast[0])

    def _judged(
        self,
        cluster: Graph,
        shapes: Shapes,
        ranges: Mapping[str, Interval] = NO_RANGES,
        trace: Trace | None = None,
    ) -> tuple[Graph, list[CapableNode]]:
        """Returns the cluster's graph for these shapes, and its capable nodes."""
        graph = mark_int32_ranges(bind_shapes(cluster, shapes), ranges)
        members = []
        for node in graph.nodes:
            verdict = judge(node, self.target, trace=trace)
            if isinstance(verdict, Rejection):
                raise Declined((verdict.node,), verdict.reason, verdict.detail)
            members.append(verdict)
        return graph, members

    def _compilation_failure(self, failure: Exception) -> Declined:
        detail = f"{self.device.name} did not compile its cluster: {failure}"
        too_large = isinstance(failure, RuntimeFailure) and failure.code in TOO_LARGE
        return Declined((), Reason.DRIVER, detail, too_large)


def _check_elements(members: Sequence[CapableNode], outputs: Sequence[Value]) -> None:
    """Raises Declined for nodes that compute an output of the cluster without elements."""
    empty = {v.name for v in outputs if v.dims is not None and 0 in v.dims}
    for member in members if empty else ():
        lost = sorted(empty & {v.name for v in outputs_of(member.node)})
        if lost:
            detail = f"{lost[0]} has no elements and leaves its cluster; {NO_ELEMENTS}"
            names = [part.name for part in member.node.originals]
            raise Declined(names, Reason.SHAPE, detail)


def _side_with_less_work(
    members: Sequence[CapableNode], unsupported: UnsupportedPermute
) -> Sequence[str]:
    """Returns the nodes before or after a permute, whichever have less work; after it on a tie."""

    def macs(names: Sequence[str]) -> int:
        left = (m.node for m in members if {p.name for p in m.node.originals} & set(names))
        return sum(work(node).macs for node in left)

    return min((unsupported.nodes, unsupported.writers or unsupported.nodes), key=macs)
