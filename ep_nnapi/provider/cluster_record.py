"""Records of clusters in their session: what was compiled of them, and what computed their runs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from ep_nnapi.nnapi.clock import run_time_ns
from ep_nnapi.nnapi.expressions import Condition
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.runtime import Duration, TimedOperation
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.device_health import Failures
from ep_nnapi.report.report import ClusterReport, Substitute

MOST_REASONS = 16
"""Different fallbacks that are counted one by one; those after them share a reason."""

CountDirectRuns: TypeAlias = Callable[[], tuple[int, int, int]]
"""Returns what C code counted: runs, and nanoseconds of all of them and of the fastest one.

The nanoseconds are 0 unless the cluster's runs are timed.
"""


@frozen
class OpenedFor:
    """Sizes that one compilation holds for.

    symbols     where each symbol is read: an input, and its axis, or for a symbol `input[i]` the
                position among its contents
    conditions  on the symbols
    """

    symbols: Mapping[str, tuple[str, int]]
    conditions: tuple[Condition, ...]

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        symbols = {name: list(place) for name, place in self.symbols.items()}
        return {"symbols": symbols, "conditions": [str(c) for c in self.conditions]}


@frozen
class Compiled:
    """Everything that the device compiled of a cluster, for all sizes of its inputs.

    operations    NNAPI operations, those of inner models included
    weight_bytes  bytes of their constant tensors
    nanoseconds   time of the compilations
    count         number of the compilations
    opened        of those that hold for many sizes, for which
    """

    operations: int = 0
    weight_bytes: int = 0
    nanoseconds: int = 0
    count: int = 0
    opened: tuple[OpenedFor, ...] = ()

    def plus(self, model: Model, nanoseconds: int, opened: OpenedFor | None) -> Compiled:
        """Returns the sum of this and one more compilation."""
        models = tuple(_with_inner(model))
        constants = (o.value for m in models for o in m.operands if o.type.tensor)
        return Compiled(
            self.operations + sum(len(m.operations) for m in models),
            self.weight_bytes + sum(c.size for c in constants if isinstance(c, Data)),
            self.nanoseconds + nanoseconds,
            self.count + 1,
            (*self.opened, *(() if opened is None else (opened,))),
        )

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "operations": self.operations,
            "weight_bytes": self.weight_bytes,
            "milliseconds": self.nanoseconds / 1e6,
            "compilations": self.count,
            "open_sizes": [each.to_json() for each in self.opened],
        }


def _with_inner(model: Model) -> Iterator[Model]:
    yield model
    for operand in model.operands:
        if isinstance(operand.value, Model):
            yield from _with_inner(operand.value)


class ClusterRecord:
    """Counts the runs of a cluster by what computed them; thread-safe.

    timed     True if runs are timed
    failures  of its device so far
    durations  what its device measured in the last runs, if the session measures
    """

    def __init__(self, *, timed: bool = False) -> None:
        self.timed = timed
        self._compiled: Compiled | None = None
        self._members_later: list[tuple[Callable[[], Model], int, OpenedFor | None]] = []
        self.failures = Failures()
        self.durations: deque[Duration] = deque(maxlen=100)
        self._runs: dict[Substitute | None, int] = {}  # None: the device
        self._direct: list[tuple[Substitute | None, CountDirectRuns]] = []
        self._total_ns = 0
        self._least_ns = 0
        self._lock = ForkableLock()

    def add_compilation(
        self,
        model: Model | Callable[[], Model],
        nanoseconds: int,
        by: Substitute | None = None,
        opened: OpenedFor | None = None,
    ) -> None:
        """Adds a compilation, by the device or by what computes the cluster in its place.

        model   or what makes it when somebody asks for what was compiled
        opened  the sizes that it holds for, if these are many
        """
        with self._lock:
            if by is not None:
                self._runs.setdefault(self._told_apart(by), 0)
            elif isinstance(model, Model):
                self._compiled = (self._compiled or Compiled()).plus(model, nanoseconds, opened)
            else:
                self._members_later.append((model, nanoseconds, opened))

    @property
    def compiled(self) -> Compiled | None:
        """What the device compiled; None if that was nothing."""
        found = self._compiled
        for model, nanoseconds, opened in tuple(self._members_later):
            found = (found or Compiled()).plus(model(), nanoseconds, opened)
        return found

    def start(self) -> int:
        """Returns what `add_run` needs at the end of a run that begins."""
        return run_time_ns() if self.timed else 0

    def add_run(self, by: Substitute | None, start: int) -> None:
        """Counts a run that has ended well; `by` computed it in place of the device."""
        nanoseconds = run_time_ns() - start if self.timed else 0
        with self._lock:
            by = by and self._told_apart(by)
            self._runs[by] = self._runs.get(by, 0) + 1
            if self.timed:
                self._total_ns += nanoseconds
                self._least_ns = min(self._least_ns or nanoseconds, nanoseconds)

    def _told_apart(self, by: Substitute) -> Substitute:
        many = by not in self._runs and len(self._runs) >= MOST_REASONS
        return by.for_many_reasons if many else by

    def add_direct_runs(self, by: Substitute | None, count: CountDirectRuns) -> None:
        """Has the runs that `count` returns counted as well."""
        self._direct.append((by, count))

    @property
    def device_runs(self) -> int:
        """Number of runs that the device computed."""
        return self._counted().get(None, 0)

    @property
    def substitutes(self) -> dict[Substitute, int]:
        """Number of runs that something else computed, by what and why."""
        return {by: runs for by, runs in self._counted().items() if by is not None}

    def _counted(self) -> dict[Substitute | None, int]:
        found = self._runs.copy()  # without a lock: a session may end while one is held
        for by, count in tuple(self._direct):
            found[by] = found.get(by, 0) + count()[0]
        return found

    def times(self) -> tuple[int, int] | None:
        """Returns nanoseconds of all runs and of the fastest one; None if none was timed."""
        direct = [count() for _, count in tuple(self._direct)]
        least = [ns for ns in chain([self._least_ns], (ns for _, _, ns in direct)) if ns]
        total = self._total_ns + sum(ns for _, ns, _ in direct)
        return (total, min(least)) if least else None


T = TypeVar("T")


class RunEvent(NamedTuple):
    """One timed part of a run.

    name    the NNAPI operation, INPUTS or OUTPUTS around the operations, or WHOLE_CLUSTER
    nodes   the ONNX nodes that it computes
    device  the NNAPI device, or the execution provider of a fallback
    bytes   size of the tensors that it reads and writes, constants included
    start_ns, end_ns  in time.perf_counter_ns() time
    thread  native id of the thread that computed it
    """

    name: str
    nodes: tuple[str, ...]
    device: str
    bytes: int
    start_ns: int
    end_ns: int
    thread: int


WHOLE_CLUSTER = "NNAPI cluster"
INPUTS, OUTPUTS = "NNAPI inputs", "NNAPI outputs"
"""What a run does before its first operation and after its last: conversions of tensors at the
cluster's border, and the calls of the runtime."""


class RunEvents:
    """One run of a cluster; iterating over it creates its events.

    start_ns, end_ns  in time.perf_counter_ns() time; listeners may set those of a caller
    """

    def __init__(self, listeners: Sequence[Listener], cluster: ClusterReport) -> None:
        self._listeners = tuple(listeners)
        self._cluster = cluster
        self._device = cluster.device
        self._thread = threading.get_native_id()
        self._failed: list[tuple[str, TimedOperation]] = []
        self._operations: list[TimedOperation] = []
        self.start_ns = self.end_ns = 0
        self.on_operation = self._operations.append
        """Takes an operation that the runtime has run."""

    def fall_back(self, fallback: Fallback) -> None:
        """Notes that what follows runs on the fallback, which times no operations."""
        self._failed += [(self._device, done) for done in self._operations]
        self._operations.clear()
        self._device = f"fallback={fallback}"

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Times the block as the run, and passes the run on to all listeners."""
        self.start_ns, began = time.perf_counter_ns(), run_time_ns()
        yield
        self.end_ns = self.start_ns + run_time_ns() - began
        for listener in self._listeners:
            listener(self)

    def __iter__(self) -> Iterator[RunEvent]:
        """Yields the events of the run, which meet one another.

        Without operations the run is one event. Operations before a fallback come in addition.
        """
        for device, done in self._failed:
            yield self._operation(done, device)
        nodes, size = self._cluster.nodes, self._cluster.boundary_bytes
        if not self._operations:
            yield self._event(WHOLE_CLUSTER, nodes, size, self.start_ns, self.end_ns)
            return
        first, last = self._operations[0], self._operations[-1]
        yield self._event(INPUTS, nodes, size, self.start_ns, first.start_ns)
        for done in self._operations:
            yield self._operation(done, self._device)
        yield self._event(OUTPUTS, nodes, size, last.end_ns, self.end_ns)

    def _operation(self, done: TimedOperation, device: str) -> RunEvent:
        event = self._event(done.name, done.origin, done.bytes, done.start_ns, done.end_ns)
        return event._replace(device=device)

    def _event(
        self, name: str, nodes: tuple[str, ...], size: int, start_ns: int, end_ns: int
    ) -> RunEvent:
        return RunEvent(name, nodes, self._device, size, start_ns, end_ns, self._thread)


Listener: TypeAlias = Callable[[RunEvents], None]
"""Called at the end of each run, on its thread."""


def run_with_events(
    listeners: Sequence[Listener],
    cluster: ClusterReport,
    run: Callable[[RunEvents | None], T],
) -> T:
    """Returns the result of `run`, called with the events to fill; with None if nobody listens.

    The listeners get the events at the end of the run.
    """
    if not listeners:
        return run(None)
    events = RunEvents(listeners, cluster)
    with events.whole():
        return run(events)


def note_fallback(events: RunEvents | None, fallback: Fallback) -> None:
    """Notes in the events of a run, if there are any, that what follows runs on the fallback."""
    if events is not None:
        events.fall_back(fallback)
