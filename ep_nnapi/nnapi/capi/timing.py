"""Durations of an execution, as the C API reports them."""

from __future__ import annotations

from dataclasses import dataclass

from ep_nnapi.nnapi.codes import DurationCode


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of an execution in time.monotonic_ns; it may start once its dependencies are done."""

    requested: int
    dependencies_done: int
    compute_started: int
    done: int

    def duration(self, code: DurationCode) -> int:
        """Returns nanoseconds; fenced durations exclude the wait for other executions.

        Source: NDK DurationCode.
        """
        begin = {
            DurationCode.DURATION_IN_DRIVER: self.requested,
            DurationCode.FENCED_DURATION_IN_DRIVER: self.dependencies_done,
        }
        return self.done - begin.get(code, self.compute_started)
