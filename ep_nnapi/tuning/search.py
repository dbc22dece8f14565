"""Search of the best candidate in three stages, each measured in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.options.table import parse
from ep_nnapi.provider.devices import runtime_of
from ep_nnapi.provider.provider import Provider
from ep_nnapi.tuning.accuracy import nodes_to_leave
from ep_nnapi.tuning.candidates import (
    Candidate,
    combined,
    on_devices,
    on_the_cpu,
    variants,
    without_nodes,
)
from ep_nnapi.tuning.choice import Choice, Measured, choose
from ep_nnapi.tuning.timing import Run, Timing
from ep_nnapi.tuning.trial import Session, Subject

Measure: TypeAlias = Callable[[int, Mapping[str, Run]], Mapping[str, Timing]]
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

    def run(self) -> Choice:
        """Returns the choice among the finalists.

        First the CPU provider and each device, then variants of the fastest device, then the best
        of both with the improvements combined. Raises OptionError for options of no device.
        """
        devices = list(on_devices(runtime_of(parse(self.options)), self.options))
        first = self._stage(0, [*on_the_cpu(), *devices])
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
            self.found[name] = replace(self.found[name], timing=timing)
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
