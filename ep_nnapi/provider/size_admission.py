"""Admission of new sizes to compilation, for clusters whose sizes change from run to run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

MOST_WAITING = 1024
"""Sizes that wait to be compiled; of more, those that ran least recently are forgotten."""


@dataclass(slots=True)
class SizeAdmission:
    """Decides which sizes are compiled, so that changing sizes cost at most twice the CPU's time.

    The first ones are compiled when they are met. Later ones run on the CPU provider until that has
    taken as long as a compilation does on average, which sizes that never repeat do not reach (the
    rule of the ski rental problem). Sizes that were evicted from the cache wait again.

    at_once   number of sizes that are compiled when they are met; None: all
    """

    at_once: int | None
    _compiled: int = 0
    _seconds: float = 0.0
    _waited: bool = False
    _waiting: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def admits(self, sizes: Hashable) -> bool:
        """Return True if these sizes are to be compiled now."""
        if self.at_once is None or self._compiled < self.at_once:
            return True
        return self._waiting.get(sizes, 0.0) >= self._seconds / self._compiled

    def add_compilation(self, sizes: Hashable, seconds: float) -> None:
        """Count a compilation and its time."""
        self._compiled += 1
        self._seconds += seconds
        self._waiting.pop(sizes, None)

    def add_cpu_run(self, sizes: Hashable, seconds: float) -> bool:
        """Count a run on the CPU provider in place of a compilation; return True for the first."""
        first, self._waited = not self._waited, True
        self._waiting[sizes] = self._waiting.pop(sizes, 0.0) + seconds
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
        return first
