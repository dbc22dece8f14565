"""Events of NNAPI operations for the profiles that ONNX Runtime records."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check, ep_api, strings
from ep_nnapi.provider.cluster_record import Listener, RunEvent, RunEvents

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData


_KERNEL = 2  # Source: OrtProfilingEventCategory.
_returning: list[CData] = []
"""Times that C code still writes: of runs that return while a profile ends."""


class Profiler:
    """Collects the events of a session's runs between the begin and the end of a profile."""

    def __init__(self, listeners: list[Listener], on_start: Callable[[], None]) -> None:
        """Create a profiler; `on_start` is called after a listener has been added."""
        self._listeners, self._on_start = listeners, on_start
        self._began_ns = 0
        self._runs: list[tuple[RunEvents, CData]] = []

    def start(self, began_ns: int) -> None:
        """Begins to collect; the profile began at `began_ns` in time.perf_counter_ns() time."""
        self._began_ns = began_ns
        self._listeners.append(self._add)
        self._on_start()

    def _add(self, run: RunEvents) -> None:
        """Keeps a run, which lasts from ONNX Runtime's call of the fused node to its return.

        Its events are made at the end of the profile, so that they do not take a run's time. Called
        from any thread.
        """
        ends = ffi.new("int64_t *")
        run.start_ns = lib.time_compute(ends)
        self._runs.append((run, ends))

    def end(self, container: int) -> None:
        """Adds the events to an OrtProfilingEventsContainer and collects no more."""
        self._listeners.remove(self._add)
        runs, self._runs = self._runs, []
        for run, ends in runs:
            if ends[0]:
                run.end_ns = ends[0]
            else:
                _returning.append(ends)
            for event in run:
                self._report(event, container)

    def _report(self, event: RunEvent, container: int) -> None:
        """Adds one event; its times are rounded down to microseconds, as ONNX Runtime's are."""
        start = (event.start_ns - self._began_ns) // 1000
        end = (event.end_ns - self._began_ns) // 1000
        values = {
            "nodes": ", ".join(event.nodes),
            "device": event.device,
            "bytes": str(event.bytes),
        }
        times = start, end - start
        made = ffi.new("OrtProfilingEvent **")
        (keys, _keys), (contents, _contents) = strings(values), strings(values.values(), "replace")
        check(
            ep_api().CreateProfilingEvent(
                *(_KERNEL, os.getpid(), event.thread, event.name.encode(), *times),
                *(keys, contents, len(values), made),
            )
        )
        events = ffi.cast("OrtProfilingEventsContainer *", container)
        status = ep_api().ProfilingEventsContainer_AddEvents(events, made, 1)
        ep_api().ReleaseProfilingEvent(made[0])
        check(status)
