"""How long runs take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

_SECONDS = 0.5  # of measuring a side, beyond its first run
_MOST = 100


@dataclass(frozen=True, slots=True)
class Timed:
    """The median of so many runs, in milliseconds."""

    milliseconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one run with the first inputs on either side; None where the CPU provider cannot run."""

    nnapi: Timed
    cpu: Timed | None


def measured(run: Callable[[], object]) -> Timed:
    """How long a run takes, after one that is not counted."""
    run()
    times: list[float] = []
    while not times or (sum(times) < _SECONDS and len(times) < _MOST):
        began = perf_counter()
        run()
        times.append(perf_counter() - began)
    return Timed(1000 * median(times), len(times))
