"""Trials of a device: samples of an operation with values, and what the device makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.profile.device import Group
from ep_nnapi.nnapi.profile.form import OperationUse, Traits, form_of
from ep_nnapi.nnapi.profile.record import Probe
from ep_nnapi.nnapi.profile.sample import Sample, model_of, use_of
from ep_nnapi.nnapi.profile.seeds import N, seeds_of
from ep_nnapi.nnapi.profile.tolerance import Error, error_of
from ep_nnapi.nnapi.profile.values import Values, fed, takes_extremes
from ep_nnapi.nnapi.runtime import Compilation, CompileOptions, Device, RunOptions, Runtime
from ep_nnapi.nnapi.signature import OperationSpec

SIZES = (1, 5, 18)
"""Sizes of each dimension beside that of samples: one, odd, and more than a vector of 16."""
_SLOW = {"LSH_PROJECTION": SIZES[:2]}
"""Fewer sizes: it hashes all bytes of the input for each element of another one."""
_TIMED_RUNS = 7


@dataclass(frozen=True, slots=True)
class Trial:
    """A sample with values.

    base    the sample of which it is a variation
    size    of each dimension
    timed   True if its runs are timed: the largest one of the types
    """

    use: OperationUse
    base: Sample
    values: Values = Values.ORDINARY
    size: int = N

    @property
    def timed(self) -> bool:
        """True if its runs are timed."""
        return self.size == SIZES[-1]

    @property
    def types(self) -> str:
        """The types of its operands, as in `Form`."""
        return form_of(self.use).types

    @property
    def traits(self) -> Traits:
        """The traits of its normal form; the ranks are one of them."""
        return form_of(self.use).all_traits


def trials(spec: OperationSpec, probes: Iterable[Probe], level: int) -> list[Trial]:
    """The trials of an operation, of the samples that a device supports.

    Of each group the first sample, and of the others those with a trait that no earlier one of the
    same types has; for each list of types also other sizes.
    """
    bases: dict[Group, Probe] = {}
    known: dict[str, set[str]] = {}
    found: list[Trial] = []
    for probe in probes:
        covered = known.setdefault(probe.form.types, set())
        base = bases.setdefault(probe.group, probe)
        if base is probe or not probe.form.traits <= covered:
            covered |= probe.form.traits
            found.append(Trial(probe.use, base.sample))
            if base is probe and takes_extremes(probe.use):
                found.append(Trial(probe.use, base.sample, Values.EXTREME))
    by_types = {types: (types, ranks) for _, types, ranks in sorted(bases, key=_ranks)}
    return [*found, *_of_sizes(spec, set(by_types.values()), level)]


def _ranks(group: Group) -> int:
    """The sum of a group's ranks, 0 if one is above 4 or unknown: such tensors stay small."""
    ranks = [int(r) if r.isdecimal() else 9 for r in group[2].replace(">", " ").split()]
    return 0 if max(ranks, default=0) > 4 else sum(ranks)


def _of_sizes(spec: OperationSpec, groups: set[tuple[str, str]], level: int) -> Iterator[Trial]:
    for size in _SLOW.get(spec.name, SIZES):
        left = set(groups)
        for sample in seeds_of(spec, size):
            made = use_of(sample)
            if made is None or made[1] > level:
                continue
            form = form_of(made[0])
            if (form.types, form.ranks) in left:
                left.remove((form.types, form.ranks))
                yield Trial(made[0], sample, size=size)


@dataclass(frozen=True, slots=True)
class Found:
    """What a device made of a trial.

    error     the worst difference from the reference; None if the device returned no results
    failure   why there are none
    seconds   median time of a run on the device and on the reference, if it is timed
    """

    error: Error | None
    failure: RuntimeFailure | None = None
    seconds: tuple[float, float] | None = None


Placed = tuple[Runtime, Device]


@dataclass(frozen=True, slots=True)
class Examiner:
    """Compares a device with the reference, trial by trial.

    timeout   of a compilation and of a run, in seconds
    """

    device: Placed
    reference: Placed
    timeout: float

    def examine(self, trial: Trial, begin: Callable[[], None]) -> Found | None:
        """What the device makes of a trial; None if the reference does not compute it.

        begin   called when the reference has computed it
        """
        given = fed(trial.use, trial.base, trial.values)
        model, count = model_of([given.use]), len(given.use.outputs)
        inputs = list(given.inputs) or [np.zeros(1, np.float32)]
        try:
            known = self.reference[0].compile(
                model, self.reference[1], CompileOptions(precise=True)
            )
            right = known.run(inputs)[:count]
        except (RuntimeFailure, SpecError):
            return None
        begin()
        limit = int(self.timeout * 1e9)
        runtime, device = self.device
        try:
            made = runtime.compile(model, device, CompileOptions(timeout_ns=limit))
            found = made.run(inputs, (), RunOptions(timeout_ns=limit))[:count]
            error = error_of(given.use, found, right)
            timed = trial.timed and not error.wrong
            seconds = (_seconds(made, inputs), _seconds(known, inputs)) if timed else None
        except RuntimeFailure as failure:
            return Found(None, failure)
        return Found(error, None, seconds)


def _seconds(compiled: Compilation, inputs: list[Array]) -> float:
    """The median time of a run."""
    times = []
    for _ in range(_TIMED_RUNS):
        start = run_time()
        compiled.run(inputs)
        times.append(run_time() - start)
    return median(times)
