"""The whole suite: every case at some feature levels, and what came of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.onnx_backend.cases import Case
from tests.onnx_backend.trial import Outcome, Verdict, attempt
from tests.onnx_backend.workers import Died, spread

DELEGATED_AT_LEAST = 95  # operator types of the default domain


@dataclass
class Tally:
    """Outcomes by verdict; the failures in full; the operators delegated anywhere."""

    verdicts: Counter[tuple[int, Verdict]] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    delegated: set[tuple[str, str]] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        self.verdicts[outcome.level, outcome.verdict] += 1
        self.delegated |= outcome.delegated
        if outcome.verdict in (Verdict.FAILED, Verdict.CRASHED):
            self.failures.append(outcome)

    @property
    def operators(self) -> list[str]:
        """The delegated operator types of the default domain."""
        return sorted(op_type for domain, op_type in self.delegated if domain in ("", "ai.onnx"))

    def lines(self) -> Iterator[str]:
        """The tally as a report to print."""
        for o in sorted(self.failures, key=lambda o: (o.case, o.level)):
            yield f"{o.verdict}: {o.case} at level {o.level}: {o.detail}"
        for (level, verdict), count in sorted(self.verdicts.items()):
            yield f"level {level}: {count} {verdict}" if level else f"{count} where {verdict}"
        yield f"{len(self.operators)} operator types delegated: {' '.join(self.operators)}"
        others = sorted(f"{d}:{op}" for d, op in self.delegated if d not in ("", "ai.onnx"))
        if others:
            yield f"and of other domains: {' '.join(others)}"


def run(cases: Sequence[Case], levels: Sequence[int]) -> Tally:
    """All cases in worker processes; a crash is one failed case."""
    tally = Tally()
    for index, result in spread(partial(attempt, levels=tuple(levels)), cases):
        crashed = isinstance(result, Died)
        for outcome in [_crash(cases[index], result)] if crashed else result:
            tally.add(outcome)
    return tally


def _crash(case: Case, died: Died) -> Outcome:
    return Outcome(case.name, 0, Verdict.CRASHED, detail=died.how)
