"""Search of the best candidate in three stages, each measured in turn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from statistics import median
from typing import TypeAlias

from ep_nnapi.diagnostics.model_sources import ProgressCallback
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.options.table import parse
from ep_nnapi.provider.provider import Provider
from ep_nnapi.tuning.candidates import (
    Candidate,
    Measured,
    Session,
    Subject,
    Winner,
    choose,
    combined,
    nodes_to_leave,
    on_devices,
    on_the_cpu,
    variants,
    without_nodes,
)

TimedCall: TypeAlias = Callable[[], object]

_ERROR = 0.05
"""Probability that a confidence interval does not contain the median."""
_NAP, _MOST_NAPS = 0.005, 20
"""Seconds of sleep after which threads are looked at, and how often: ONNX Runtime's spin 0.03 s."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks in seconds: wall time of runs, and processor time of all threads of this process."""

    wall: Callable[[], float] = run_time
    cpu: Callable[[], float] = time.process_time
    sleep: Callable[[float], object] = time.sleep

    def rest(self) -> None:
        """Waits until this process's threads are at rest: they spin for a while after a run."""
        for _ in range(_MOST_NAPS):
            before = self.cpu()
            self.sleep(_NAP)
            if self.cpu() - before < _NAP / 10:
                return


@dataclass(frozen=True, slots=True)
class TuningBudget:
    """Limits of a measurement.

    seconds  of all rounds together, after which none begins
    fewest   rounds that are measured in any case
    racing   rounds after which the slower runs are left out
    most     rounds that are measured at most
    warm_up  runs of each before the first round
    block    seconds of each in a round, one run at least: how a session runs by itself
    """

    seconds: float = 10.0
    fewest: int = 6  # the fewest for which an interval of 95 % exists
    racing: int = 8
    most: int = 100
    warm_up: int = 2
    block: float = 0.02


@dataclass(frozen=True, slots=True)
class Timing:
    """Times per run in seconds: median with its 95 % confidence interval, and processor time.

    gain  interval of the median of the first run's time over this one's, round by round; None if it
          was not measured beside another
    """

    seconds: float
    low: float
    high: float
    cpu_seconds: float
    runs: int
    gain: tuple[float, float] | None = None

    @staticmethod
    def of(walls: Sequence[float], cpus: Sequence[float], first: Sequence[float]) -> Timing:
        """Returns the timing of a run in each round, and of the first run in these rounds."""
        gain = interval([one / own for one, own in zip(first, walls, strict=False)])
        return Timing(median(walls), *interval(walls), median(cpus), len(walls), gain)

    def of_one(self, count: int) -> Timing:
        """Returns the timing of one run where `count` were measured together."""
        seconds, low, high, cpu = (
            t / count for t in (self.seconds, self.low, self.high, self.cpu_seconds)
        )
        return Timing(seconds, low, high, cpu, self.runs * count, self.gain)

    def apart(self, other: Timing) -> bool:
        """True if the confidence intervals do not overlap."""
        return self.high < other.low or other.high < self.low

    def gain_over(self, first: Timing) -> tuple[float, float]:
        """Returns `gain`, or what the two intervals leave possible if it is not known."""
        return self.gain or (first.low / self.high, first.high / self.low)


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
    run: TimedCall
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def measure(self, clock: Clocks, block: float) -> None:
        """Measures a block of runs: their median is a sample."""
        clock.rest()
        if self.walls and self.walls[-1] < block:
            self.run()  # the threads and caches are those of a session that runs again
        walls, cpu = list[float](), clock.cpu()
        while not walls or sum(walls) < block:
            begun = clock.wall()
            self.run()
            walls.append(clock.wall() - begun)
        self.walls.append(median(walls))
        self.cpus.append((clock.cpu() - cpu) / len(walls))


def interleaved(
    runs: Mapping[str, TimedCall],
    budget: TuningBudget | None = None,
    clock: Clocks | None = None,
    progress: ProgressCallback | None = None,
) -> dict[str, Timing]:
    """Returns the timings of runs that are measured in turn, each in every round.

    The order of a round is drawn, so that none always comes after the same other one, and each
    waits for the threads of that to rest. After some rounds, runs that are slower than the fastest
    beyond doubt are left out of the later ones; the first run, which all are compared with, stays.
    """
    limits, clock = budget or TuningBudget(), clock or Clocks()
    samples = {name: _Samples(run) for name, run in runs.items()}
    for run in runs.values():
        for _ in range(limits.warm_up):
            run()
    order, left, begun = random.Random(0), list(runs), clock.wall()
    for done in range(limits.most):
        if progress is not None:
            progress(done, limits.most)
        if done >= limits.fewest and clock.wall() - begun >= limits.seconds:
            break
        if done >= limits.racing:
            left = _undecided(left, samples)
        for name in order.sample(left, len(left)):
            samples[name].measure(clock, limits.block)
    first = next(iter(samples.values()))
    return {name: Timing.of(s.walls, s.cpus, first.walls) for name, s in samples.items()}


def _undecided(names: Sequence[str], samples: Mapping[str, _Samples]) -> list[str]:
    """Returns the first run and those that may be the fastest."""
    intervals = {name: interval(samples[name].walls) for name in names}
    best = min(high for _, high in intervals.values())
    return [name for name, (low, _) in intervals.items() if low <= best or name == names[0]]


Measure: TypeAlias = Callable[[int, Mapping[str, TimedCall]], Mapping[str, Timing]]
"""Measures named runs in turn; the first argument is the number of the stage."""

STAGES = 3
_NO_NODE = "NNAPI takes no node"
_BEYOND = "its outputs are beyond the tolerance"


@dataclass
class Search:
    """Search for one model.

    options  the user's, for all candidates with NNAPI
    repair   leave nodes to the CPU where a fast candidate is beyond the tolerance
    found    the last measurement of each candidate, by name
    """

    subject: Subject
    options: Mapping[str, object]
    measure: Measure
    repair: bool = False
    found: dict[str, Measured] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)

    def run(self) -> Winner:
        """Returns the choice among the finalists.

        First the CPU provider and each device, then variants of the fastest device, then the best
        of both with the improvements combined. Raises OptionError for options of no device.
        """
        devices = list(on_devices(self.options))
        first = self._stage(0, [*on_the_cpu(self.options), *devices])
        cpu = min((m for m in first if m.candidate.on_cpu), key=_seconds)
        timed = [m for m in first if not m.candidate.on_cpu and m.timing is not None]
        if not timed:
            return choose(first)
        base = min(timed, key=lambda m: (bool(m.problem), m.seconds))
        second = self._stage(1, [cpu.candidate, base.candidate, *variants(base.candidate)])
        finalists = self._finalists(second, base.candidate)
        return choose(self._stage(2, [cpu.candidate, *finalists]) if finalists else second)

    def provider_of(self, best: Candidate) -> Provider:
        """Returns the provider of a candidate of the last stage; one without nodes for the CPU."""
        return self._sessions[best.name].provider or Provider(parse(self.options))

    def _finalists(self, measured: list[Measured], first: Candidate) -> list[Candidate]:
        """Returns the candidates with NNAPI for the last stage."""
        nnapi = sorted((m for m in measured if not m.candidate.on_cpu), key=_seconds)
        accurate = [m for m in nnapi if m.eligible]
        chosen = [m.candidate for m in accurate[:2]]
        base = self.found[first.name]
        better = [m.candidate for m in accurate if m.seconds < base.seconds and m.apart(base)]
        if len(better) > 1:
            chosen.append(combined(first, better))
        beyond = [m for m in nnapi if not m.within and m.timing is not None]
        fastest = accurate[0].seconds if accurate else float("inf")
        if self.repair and beyond and beyond[0].seconds < fastest:
            names = nodes_to_leave(self.subject, beyond[0].candidate)
            chosen.append(without_nodes(beyond[0].candidate, names))
        return list({c.name: c for c in chosen}.values())

    def _stage(self, number: int, candidates: Iterable[Candidate]) -> list[Measured]:
        """Measures candidates in turn; sessions of the earlier stage that it needs are reused."""
        wanted = {c.name: c for c in candidates}
        self._sessions = {n: s for n, s in self._sessions.items() if n in wanted}
        for name, candidate in wanted.items():
            if name not in self._sessions:
                self._prepare(candidate)
        runs = {n: partial(s.run, self.subject.feeds) for n, s in self._sessions.items()}
        for name, timing in self.measure(number, runs).items():
            each = timing.of_one(len(self.subject.feeds.runs))
            self.found[name] = replace(self.found[name], timing=each)
        return [self.found[name] for name in wanted]

    def _prepare(self, candidate: Candidate) -> None:
        """Opens a session unless the candidate cannot run, and judges its outputs."""
        try:
            session = self.subject.open(candidate)
            report = session.report
            if report is not None and not report.taken:
                self.found[candidate.name] = Measured(candidate, report=report, problem=_NO_NODE)
                return
            got = session.outputs(self.subject.accuracy)
        except NnapiError as error:
            self.found[candidate.name] = Measured(candidate, problem=str(error))
            return
        self._sessions[candidate.name] = session
        self.found[candidate.name] = Measured(candidate)
        if session.provider is not None:
            verdict = self.subject.judged(got, candidate.options)
            within = self.subject.within(verdict)
            failed = "".join(str(f) for f in session.provider.failures[:1])
            problem = failed or ("" if within else _BEYOND)
            self.found[candidate.name] = Measured(candidate, None, verdict, report, within, problem)


def _seconds(found: Measured) -> float:
    return found.seconds
