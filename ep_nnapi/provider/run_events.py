"""Timed parts of runs: NNAPI operations, and clusters whose device runs them as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias, TypeVar

from ep_nnapi.nnapi.clock import run_time_ns
from ep_nnapi.nnapi.runtime import TimedOperation
from ep_nnapi.options.values import Fallback
from ep_nnapi.report.report import ClusterReport

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
    """Returns the result of `run`, which gets the events that listeners get, None without any."""
    if not listeners:
        return run(None)
    events = RunEvents(listeners, cluster)
    with events.whole():
        return run(events)


def note_fallback(events: RunEvents | None, fallback: Fallback) -> None:
    """Notes in the events of a run, if there are any, that what follows runs on the fallback."""
    if events is not None:
        events.fall_back(fallback)
