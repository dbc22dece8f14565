"""Records of clusters in their session: what was compiled of them, and what computed their runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from ep_nnapi.nnapi.clock import run_time_ns
from ep_nnapi.nnapi.expressions import Condition
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.runtime import Duration
from ep_nnapi.provider.device_health import Failures
from ep_nnapi.report.report import Substitute

MOST_REASONS = 16
"""Different fallbacks that are counted one by one; those after them share a reason."""

CountDirectRuns: TypeAlias = Callable[[], tuple[int, int, int]]
"""Returns what C code counted: runs, and nanoseconds of all of them and of the fastest one.

The nanoseconds are 0 unless the cluster's runs are timed.
"""


@frozen
class OpenedFor:
    """Sizes that one compilation holds for.

    symbols     where each symbol is read: an input, and its axis, or for a symbol `input[i]` the
                position among its contents
    conditions  on the symbols
    """

    symbols: Mapping[str, tuple[str, int]]
    conditions: tuple[Condition, ...]

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        symbols = {name: list(place) for name, place in self.symbols.items()}
        return {"symbols": symbols, "conditions": [str(c) for c in self.conditions]}


@frozen
class Compiled:
    """Everything that the device compiled of a cluster, for all sizes of its inputs.

    operations    NNAPI operations, those of inner models included
    weight_bytes  bytes of their constant tensors
    nanoseconds   time of the compilations
    count         number of the compilations
    opened        of those that hold for many sizes, for which
    """

    operations: int = 0
    weight_bytes: int = 0
    nanoseconds: int = 0
    count: int = 0
    opened: tuple[OpenedFor, ...] = ()

    def plus(self, model: Model, nanoseconds: int, opened: OpenedFor | None) -> Compiled:
        """Returns the sum of this and one more compilation."""
        models = tuple(_with_inner(model))
        constants = (o.value for m in models for o in m.operands if o.type.tensor)
        return Compiled(
            self.operations + sum(len(m.operations) for m in models),
            self.weight_bytes + sum(c.size for c in constants if isinstance(c, Data)),
            self.nanoseconds + nanoseconds,
            self.count + 1,
            (*self.opened, *(() if opened is None else (opened,))),
        )


def _with_inner(model: Model) -> Iterator[Model]:
    yield model
    for operand in model.operands:
        if isinstance(operand.value, Model):
            yield from _with_inner(operand.value)


class ClusterRecord:
    """Counts the runs of a cluster by what computed them; thread-safe.

    timed     True if runs are timed
    compiled  what the device compiled; None if that was nothing
    failures  of its device so far
    durations  what its device measured in the last runs, if the session measures
    """

    def __init__(self, *, timed: bool = False) -> None:
        self.timed = timed
        self.compiled: Compiled | None = None
        self.failures = Failures()
        self.durations: deque[Duration] = deque(maxlen=100)
        self._runs: dict[Substitute | None, int] = {}  # None: the device
        self._direct: list[tuple[Substitute | None, CountDirectRuns]] = []
        self._total_ns = 0
        self._least_ns = 0
        self._lock = ForkableLock()

    def add_compilation(
        self,
        model: Model,
        nanoseconds: int,
        by: Substitute | None = None,
        opened: OpenedFor | None = None,
    ) -> None:
        """Adds a compilation, by the device or by what computes the cluster in its place.

        opened  the sizes that it holds for, if these are many
        """
        with self._lock:
            if by is None:
                self.compiled = (self.compiled or Compiled()).plus(model, nanoseconds, opened)
            else:
                self._runs.setdefault(self._told_apart(by), 0)

    def start(self) -> int:
        """Returns what `add_run` needs at the end of a run that begins."""
        return run_time_ns() if self.timed else 0

    def add_run(self, by: Substitute | None, start: int) -> None:
        """Counts a run that has ended well; `by` computed it in place of the device."""
        nanoseconds = run_time_ns() - start if self.timed else 0
        with self._lock:
            by = by and self._told_apart(by)
            self._runs[by] = self._runs.get(by, 0) + 1
            if self.timed:
                self._total_ns += nanoseconds
                self._least_ns = min(self._least_ns or nanoseconds, nanoseconds)

    def _told_apart(self, by: Substitute) -> Substitute:
        many = by not in self._runs and len(self._runs) >= MOST_REASONS
        return by.for_many_reasons if many else by

    def add_direct_runs(self, by: Substitute | None, count: CountDirectRuns) -> None:
        """Has the runs that `count` returns counted as well."""
        self._direct.append((by, count))

    @property
    def device_runs(self) -> int:
        """Number of runs that the device computed."""
        return self._counted().get(None, 0)

    @property
    def substitutes(self) -> dict[Substitute, int]:
        """Number of runs that something else computed, by what and why."""
        return {by: runs for by, runs in self._counted().items() if by is not None}

    def _counted(self) -> dict[Substitute | None, int]:
        found = self._runs.copy()  # without a lock: a session may end while one is held
        for by, count in tuple(self._direct):
            found[by] = found.get(by, 0) + count()[0]
        return found

    def times(self) -> tuple[int, int] | None:
        """Returns nanoseconds of all runs and of the fastest one; None if none was timed."""
        direct = [count() for _, count in tuple(self._direct)]
        least = [ns for ns in chain([self._least_ns], (ns for _, _, ns in direct)) if ns]
        total = self._total_ns + sum(ns for _, ns, _ in direct)
        return (total, min(least)) if least else None
