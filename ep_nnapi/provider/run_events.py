"""Timed parts of runs: NNAPI operations, and clusters whose device runs them as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.nnapi.runtime import TimedOperation
from ep_nnapi.option_values import Fallback
from ep_nnapi.report import ClusterReport


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One timed part of a run.

    name    the NNAPI operation, or WHOLE_CLUSTER
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
Listener: TypeAlias = Callable[[RunEvent], None]


class RunEvents:
    """The events of one run of a cluster, passed on to all listeners."""

    def __init__(self, listeners: Sequence[Listener], cluster: ClusterReport) -> None:
        self._listeners = tuple(listeners)
        self._cluster = cluster
        self._device = cluster.device
        self._thread = threading.get_native_id()
        self._operations = 0

    def on_operation(self, done: TimedOperation) -> None:
        """Passes on an operation that the runtime has run."""
        self._operations += 1
        self._pass_on(done.name, done.origin, done.bytes, done.start_ns, done.end_ns)

    def fall_back(self, fallback: Fallback) -> None:
        """Notes that what follows runs on the fallback, which times no operations."""
        self._operations = 0
        self._device = f"fallback={fallback}"

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Passes on the block as one event if the device does not time its operations."""
        start = time.perf_counter_ns()
        yield
        if not self._operations:
            nodes, size = self._cluster.nodes, self._cluster.boundary_bytes
            self._pass_on(WHOLE_CLUSTER, nodes, size, start, time.perf_counter_ns())

    def _pass_on(
        self, name: str, nodes: tuple[str, ...], size: int, start_ns: int, end_ns: int
    ) -> None:
        event = RunEvent(name, nodes, self._device, size, start_ns, end_ns, self._thread)
        for listener in self._listeners:
            listener(event)
