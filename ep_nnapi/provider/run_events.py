"""Timed parts of runs: NNAPI operations, and clusters whose device runs them as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from ep_nnapi.nnapi.runtime import TimedOperation
from ep_nnapi.option_values import Fallback
from ep_nnapi.report import ClusterReport


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
Listener: TypeAlias = Callable[[RunEvent], None]


class RunEvents:
    """The events of one run of a cluster, passed on to all listeners."""

    def __init__(self, listeners: Sequence[Listener], cluster: ClusterReport) -> None:
        self._listeners = tuple(listeners)
        self._cluster = cluster
        self._device = cluster.device
        self._thread = threading.get_native_id()
        self._operations: list[TimedOperation] = []
        self._start_ns = 0
        self.on_operation = self._operations.append
        """Takes an operation that the runtime has run; it is passed on after the run."""

    def fall_back(self, fallback: Fallback) -> None:
        """Notes that what follows runs on the fallback, which times no operations."""
        self._pass_on_operations()
        self._device = f"fallback={fallback}"

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Passes on the block as one event if the device does not time its operations.

        If it does, what follows the last operation becomes an event.
        """
        self._start_ns = time.perf_counter_ns()
        yield
        end = time.perf_counter_ns()
        nodes, size = self._cluster.nodes, self._cluster.boundary_bytes
        if self._operations:
            first, last = self._operations[0], self._operations[-1]
            self._pass_on(INPUTS, nodes, size, self._start_ns, first.start_ns)
            self._pass_on_operations()
            self._pass_on(OUTPUTS, nodes, size, last.end_ns, end)
        else:
            self._pass_on(WHOLE_CLUSTER, nodes, size, self._start_ns, end)

    def _pass_on_operations(self) -> None:
        for done in self._operations:
            self._pass_on(done.name, done.origin, done.bytes, done.start_ns, done.end_ns)
        self._operations.clear()

    def _pass_on(
        self, name: str, nodes: tuple[str, ...], size: int, start_ns: int, end_ns: int
    ) -> None:
        event = RunEvent(name, nodes, self._device, size, start_ns, end_ns, self._thread)
        for listener in self._listeners:
            listener(event)


def run_with_events(
    listeners: Sequence[Listener],
    cluster: ClusterReport,
    run: Callable[[RunEvents | None], None],
) -> None:
    """Calls `run` with its events, which the listeners get afterwards; None without listeners."""
    if not listeners:
        run(None)
        return
    events = RunEvents(listeners, cluster)
    with events.whole():
        run(events)


def note_fallback(events: RunEvents | None, fallback: Fallback) -> None:
    """Notes in the events of a run, if there are any, that what follows runs on the fallback."""
    if events is not None:
        events.fall_back(fallback)
