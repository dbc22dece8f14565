"""Choice among measured candidates: the fastest accurate one, the CPU provider where in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ep_nnapi.diagnostics.verdict import Verdict
from ep_nnapi.report.report import Report
from ep_nnapi.tuning.candidates import Candidate
from ep_nnapi.tuning.timing import Timing

_LESS_CPU = 0.9
"""Largest ratio of processor times that counts as less: smaller differences are within noise."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and what is known of it.

    timing   None if it could not be measured
    verdict  on its outputs; None with the provider off, which computes the expected ones
    report   device placement; None with the provider off
    within   True if its outputs are within the tolerance
    problem  why it cannot be chosen, if it cannot
    """

    candidate: Candidate
    timing: Timing | None = None
    verdict: Verdict | None = None
    report: Report | None = None
    within: bool = True
    problem: str = ""

    @property
    def eligible(self) -> bool:
        """True if it may be chosen."""
        return self.timing is not None and self.within and not self.problem

    @property
    def seconds(self) -> float:
        """Median seconds per run; infinite without a timing."""
        return float("inf") if self.timing is None else self.timing.seconds

    def apart(self, other: Measured) -> bool:
        """True if both are measured and their confidence intervals do not overlap."""
        return bool(self.timing and other.timing and self.timing.apart(other.timing))

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        report = self.report
        return {
            "name": self.candidate.name,
            "provider": str(self.candidate.provider),
            "optimization_level": self.candidate.level,
            "options": dict(self.candidate.settings({}).options),
            "timing": None if self.timing is None else asdict(self.timing),
            "nodes": None if report is None else report.nodes,
            "taken": None if report is None else report.taken,
            "clusters": None if report is None else len(report.clusters),
            "largest_difference": None if self.verdict is None else self.verdict.worst,
            "within_tolerance": self.within,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The recommended candidate, and the reason in one sentence."""

    best: Measured
    reason: str


def choose(found: Sequence[Measured]) -> Choice:
    """Returns the choice among candidates, of which at least one has the provider off.

    Candidates whose confidence intervals overlap with the fastest one's count as equally fast.
    Among these, NNAPI is taken if it needs clearly less processor time, else the CPU provider if it
    is one of them, else the candidate with the fewest changes.
    """
    eligible = [m for m in found if m.eligible]
    fastest = min(eligible, key=lambda m: m.seconds)
    close = [m for m in eligible if m is fastest or not m.apart(fastest)]
    cpu = min((m for m in eligible if m.candidate.on_cpu), key=lambda m: m.seconds)
    nnapi = [m for m in eligible if not m.candidate.on_cpu]
    if not nnapi:
        return Choice(cpu, _nothing_on_nnapi(found))
    close_nnapi = [m for m in close if not m.candidate.on_cpu]
    if all(m is not cpu for m in close) and close_nnapi:
        best = min(close_nnapi, key=lambda m: (len(m.candidate.changes), m.seconds))
        return Choice(best, f"{_compared(best, cpu)}: {cpu.seconds / best.seconds:.2g} x as fast.")
    relieving = [m for m in close_nnapi if _cpu_seconds(m) < _LESS_CPU * _cpu_seconds(cpu)]
    if relieving:
        best = min(relieving, key=_cpu_seconds)
        less = f"{_cpu_seconds(best) * 1e3:.3g} instead of {_cpu_seconds(cpu) * 1e3:.3g} ms"
        return Choice(best, f"{_compared(best, cpu)}: as fast, with {less} of processor time.")
    rival = min(nnapi, key=lambda m: m.seconds)
    if rival in close:
        return Choice(cpu, f"{_compared(rival, cpu)}: NNAPI is not faster beyond doubt.")
    slower = f"{rival.seconds / cpu.seconds:.2g} x as slow"
    return Choice(cpu, f"{_compared(rival, cpu)}: NNAPI loses, {slower}.")


def _cpu_seconds(found: Measured) -> float:
    return float("inf") if found.timing is None else found.timing.cpu_seconds


def _compared(nnapi: Measured, cpu: Measured) -> str:
    return (
        f"{nnapi.candidate.name} takes {nnapi.seconds * 1e3:.3g} ms, {cpu.candidate.name} "
        f"{cpu.seconds * 1e3:.3g} ms"
    )


def _nothing_on_nnapi(found: Sequence[Measured]) -> str:
    problem = next(m for m in found if not m.candidate.on_cpu)
    return f"No candidate with NNAPI can be taken; {problem.candidate.name}: {problem.problem}."
