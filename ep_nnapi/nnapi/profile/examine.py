"""Trials of a device: samples of an operation with values, and what the device makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from statistics import median

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.profile.device import Group
from ep_nnapi.nnapi.profile.form import OperationUse, TraitNames, form_of
from ep_nnapi.nnapi.profile.record import Probe
from ep_nnapi.nnapi.profile.sample import Sample, model_of, use_of
from ep_nnapi.nnapi.profile.seeds import N, seeds_of
from ep_nnapi.nnapi.profile.tolerance import WorstError, error_of
from ep_nnapi.nnapi.profile.values import Fed, Values, fed, takes_extremes
from ep_nnapi.nnapi.runtime import Compilation, CompileOptions, Device, RunOptions, Runtime
from ep_nnapi.nnapi.signature import OperationSpec

SIZES = (1, 5, 18)
"""Sizes of each dimension beside that of samples: one, odd, and more than a vector of 16."""
_SLOW = {"LSH_PROJECTION": SIZES[:2]}
"""Fewer sizes: it hashes all bytes of the input for each element of another one."""
TOGETHER = 16
"""Most trials that are the operations of one model."""
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
    def traits(self) -> TraitNames:
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
class TrialResult:
    """What a device made of a trial.

    error     the worst difference from the reference
    seconds   median time of a run on the device and on the reference, if it is timed
    """

    error: WorstError
    seconds: tuple[float, float] | None = None


RuntimeDevice = tuple[Runtime, Device]


@dataclass(frozen=True, slots=True)
class Known:
    """A trial with input values and the results of nnapi-reference, compiled by itself."""

    trial: Trial
    given: Fed
    compiled: Compilation
    right: list[Array]

    @property
    def inputs(self) -> list[Array]:
        """The inputs of its model."""
        return _inputs([self.given])


@dataclass(frozen=True, slots=True)
class Examiner:
    """Compares a device with the reference.

    timeout   of a compilation and of a run, in seconds
    """

    device: RuntimeDevice
    reference: RuntimeDevice
    timeout: float

    def known(self, trial: Trial) -> Known | None:
        """The results of the reference; None if it does not compute the trial."""
        given, (runtime, device) = fed(trial.use, trial.base, trial.values), self.reference
        try:
            compiled = runtime.compile(model_of([given.use]), device, CompileOptions(precise=True))
            right = compiled.run(_inputs([given]))[: len(given.use.outputs)]
        except (RuntimeFailure, SpecError):
            return None
        return Known(trial, given, compiled, right)

    def examine(self, together: Sequence[Known]) -> list[TrialResult]:
        """What the device makes of trials that are the operations of one model.

        Raises RuntimeFailure if the device fails.
        """
        limit = int(self.timeout * 1e9)
        runtime, device = self.device
        fed = [known.given for known in together]
        model, inputs = model_of([each.use for each in fed]), _inputs(fed)
        compiled = runtime.compile(model, device, CompileOptions(timeout_ns=limit))
        results = iter(compiled.run(inputs, (), RunOptions(timeout_ns=limit)))
        found = []
        for known in together:
            use = known.given.use
            error = error_of(use, list(islice(results, len(use.outputs))), known.right)
            seconds = None
            if known.trial.timed and not error.wrong:
                seconds = _seconds(compiled, inputs), _seconds(known.compiled, known.inputs)
            found.append(TrialResult(error, seconds))
        return found


def batches(trials: Iterable[tuple[int, Trial]], alone: int) -> Iterator[list[tuple[int, Trial]]]:
    """Numbered trials that a device gets as one model each.

    alone   the number up to which each is alone; those that are timed are, too
    """

    def key(numbered: tuple[int, Trial]) -> tuple[bool, int]:
        number, trial = numbered
        return trial.use.relaxed, number if number < alone or trial.timed else -1

    for _, members in groupby(trials, key):
        left = list(members)
        yield from (left[i : i + TOGETHER] for i in range(0, len(left), TOGETHER))


def _inputs(fed: Sequence[Fed]) -> list[Array]:
    """The inputs of a model of these operations; of constants alone it has one of its own."""
    return [array for each in fed for array in each.inputs] or [np.zeros(1, np.float32)]


def _seconds(compiled: Compilation, inputs: list[Array]) -> float:
    """The median time of a run."""
    times = []
    for _ in range(_TIMED_RUNS):
        start = run_time()
        compiled.run(inputs)
        times.append(run_time() - start)
    return median(times)
