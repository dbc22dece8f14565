"""How long an execution took, as the C API asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class DurationCode(IntEnum):
    """Which duration is asked for (DurationCode)."""

    DURATION_ON_HARDWARE = 0
    DURATION_IN_DRIVER = 1
    FENCED_DURATION_ON_HARDWARE = 2
    FENCED_DURATION_IN_DRIVER = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """When it was asked for, free to run, computing and done: on time.monotonic_ns's clock."""

    asked: int
    free: int
    computing: int
    done: int

    def duration(self, code: DurationCode) -> int:
        """Nanoseconds; fenced durations leave out the wait for other executions.

        Source: NDK DurationCode.
        """
        begin = {
            DurationCode.DURATION_IN_DRIVER: self.asked,
            DurationCode.FENCED_DURATION_IN_DRIVER: self.free,
        }
        return self.done - begin.get(code, self.computing)
