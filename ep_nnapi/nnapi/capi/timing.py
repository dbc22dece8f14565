"""Durations of an execution, as the C API reports them."""

from __future__ import annotations

from dataclasses import dataclass

from ep_nnapi.nnapi.codes import DurationCode


@dataclass(frozen=True, slots=True)
class Timing:
    """Times when an execution was asked for, free to run, computing, done (time.monotonic_ns)."""

    asked: int
    free: int
    computing: int
    done: int

    def duration(self, code: DurationCode) -> int:
        """Returns nanoseconds; fenced durations exclude the wait for other executions.

        Source: NDK DurationCode.
        """
        begin = {
            DurationCode.DURATION_IN_DRIVER: self.asked,
            DurationCode.FENCED_DURATION_IN_DRIVER: self.free,
        }
        return self.done - begin.get(code, self.computing)
