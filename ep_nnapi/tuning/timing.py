"""Measurement of runs in turn: latency and processor time, medians with confidence intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import median
from typing import TypeAlias

Run: TypeAlias = Callable[[], object]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and of all steps."""

_ERROR = 0.05
"""Probability that a confidence interval does not contain the median."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Clocks in seconds: wall time, and processor time of all threads of this process."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a measurement.

    seconds  of all runs together, after which no round begins
    fewest   rounds that are measured in any case
    racing   rounds after which the slower runs are left out
    most     rounds that are measured at most
    warm_up  runs of each before the first round
    """

    seconds: float = 10.0
    fewest: int = 6  # the fewest for which an interval of 95 % exists
    racing: int = 20
    most: int = 100
    warm_up: int = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """Times per run in seconds: median with its 95 % confidence interval, and processor time."""

    seconds: float
    low: float
    high: float
    cpu_seconds: float
    runs: int

    @staticmethod
    def of(walls: Sequence[float], cpus: Sequence[float]) -> Timing:
        """Returns the timing of measured runs."""
        low, high = interval(walls)
        return Timing(median(walls), low, high, median(cpus), len(walls))

    def apart(self, other: Timing) -> bool:
        """True if the confidence intervals do not overlap."""
        return self.high < other.low or other.high < self.low


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns a 95 % confidence interval of the median: the narrowest two order statistics.

    It assumes nothing of the distribution. Up to five values give their whole range, which is less
    certain.

    >>> interval([5, 1, 4, 2, 3, 6, 7, 8])
    (1, 8)
    >>> interval(range(20))
    (5, 14)
    """
    ordered, n = sorted(values), len(values)
    outside, k = 1.0, 0  # in 2 ** n-ths: the outcomes with at most k values below the median
    while k < (n - 1) // 2:
        more = outside + comb(n, k + 1)
        if 2 * more / 2**n > _ERROR:
            break
        outside, k = more, k + 1
    return ordered[k], ordered[n - 1 - k]


@dataclass
class _Samples:
    run: Run
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def measure(self, clock: Clock) -> float:
        """Runs once and returns the time."""
        wall, cpu = clock.wall(), clock.cpu()
        self.run()
        self.walls.append(clock.wall() - wall)
        self.cpus.append(clock.cpu() - cpu)
        return self.walls[-1]


def interleaved(
    runs: Mapping[str, Run],
    budget: Budget | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> dict[str, Timing]:
    """Returns the timings of runs that are measured in turn, each once in every round.

    Rounds begin with another run each, so that no run is always the first. After some rounds, runs
    that are slower than the fastest beyond doubt are left out of the later ones.
    """
    limits, clock = budget or Budget(), clock or Clock()
    samples = {name: _Samples(run) for name, run in runs.items()}
    for run in runs.values():
        for _ in range(limits.warm_up):
            run()
    spent, left = 0.0, list(runs)
    for done in range(limits.most):
        if progress is not None:
            progress(done, limits.most)
        if done >= limits.fewest and spent >= limits.seconds:
            break
        if done >= limits.racing:
            left = _undecided(left, samples)
        start = done % len(left)
        spent += sum(samples[name].measure(clock) for name in (*left[start:], *left[:start]))
    return {name: Timing.of(s.walls, s.cpus) for name, s in samples.items()}


def _undecided(names: Sequence[str], samples: Mapping[str, _Samples]) -> list[str]:
    """Returns the runs that may be the fastest."""
    intervals = {name: interval(samples[name].walls) for name in names}
    best = min(high for _, high in intervals.values())
    return [name for name, (low, _) in intervals.items() if low <= best]
