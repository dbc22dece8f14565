"""Latency measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

_MAX_SECONDS = 0.5  # of measurement for each session, after its warm-up run
_MAX_RUNS = 100


@dataclass(frozen=True, slots=True)
class Timed:
    """Median time of a number of runs, in milliseconds."""

    milliseconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a run with the first inputs on each provider; `cpu` is None if it cannot run."""

    nnapi: Timed
    cpu: Timed | None


def measured(run: Callable[[], object]) -> Timed:
    """Returns the median time of a run, after one warm-up run."""
    run()
    times: list[float] = []
    while not times or (sum(times) < _MAX_SECONDS and len(times) < _MAX_RUNS):
        began = perf_counter()
        run()
        times.append(perf_counter() - began)
    return Timed(1000 * median(times), len(times))
