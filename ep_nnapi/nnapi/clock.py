"""The clock that times runs: it stands still while bytes travel to another machine and back."""

from __future__ import annotations

import time

from ep_nnapi.nnapi.forks import ForkableLock


class Clock:
    """Time without that which is taken out; thread-safe."""

    def __init__(self) -> None:
        self._lock = ForkableLock()
        self._taken_ns = 0

    def take_out(self, nanoseconds: int) -> None:
        """Take out the time that a run spent on its way to a device, and back."""
        with self._lock:
            self._taken_ns += nanoseconds

    def time_ns(self) -> int:
        """Nanoseconds since some moment."""
        return time.perf_counter_ns() - self._taken_ns


RUN_CLOCK = Clock()
"""The clock of this process's runs."""
run_time_ns = RUN_CLOCK.time_ns


def run_time() -> float:
    """Seconds since some moment, by the clock of runs."""
    return run_time_ns() / 1e9
