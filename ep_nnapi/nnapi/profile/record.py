"""Recording of device profiles: a device is asked about samples of all operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.profile.device import Conditions, Group, Profile
from ep_nnapi.nnapi.profile.form import Form, OperationUse, TraitNames, form_of, uses
from ep_nnapi.nnapi.profile.sample import Sample, model_of, use_of
from ep_nnapi.nnapi.profile.seeds import seeds, seeds_of
from ep_nnapi.nnapi.profile.variations import variations
from ep_nnapi.nnapi.runtime import Device, Runtime
from ep_nnapi.nnapi.signature import OperationSpec

_MOST_ASKED = 64
"""Operations in one query: large models have more, small drivers answer them still."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A sample with all that is derived from it; `level` is the feature level that it needs."""

    sample: Sample
    use: OperationUse
    level: int
    form: Form

    @property
    def group(self) -> Group:
        """Its operation, operand types and ranks, by which a profile groups the answers."""
        return self.form.operation, self.form.types, self.form.ranks


def record(runtime: Runtime, device: Device, exact: Mapping[str, bool] | None = None) -> Profile:
    """The profile of a device; `exact`: answers for operations of models, see `RecordingRuntime`.

    Raises RuntimeFailure if the device answers no query at all.
    """
    (profile,) = record_all([(runtime, device)])
    return Profile(profile.device, profile.runtime_level, profile.groups, exact or {})


def record_all(
    devices: Sequence[tuple[Runtime, Device]], samples: Iterable[Sample] | None = None
) -> list[Profile]:
    """The profiles of several devices, for which the samples are made once.

    samples   first samples, with all samples of one operation together (default: `seeds`)
    """
    recorders = [_Recorder(runtime, device) for runtime, device in devices]
    given = seeds() if samples is None else samples
    for _, members in groupby(given, key=lambda sample: sample.spec.code):
        batches = _batches(_probes(members))
        for recorder in recorders:
            recorder.add(batches)
    return [Profile(r.device, r.runtime.feature_level, r.groups, {}) for r in recorders]


def record_operation(
    runtime: Runtime, device: Device, spec: OperationSpec
) -> tuple[Mapping[Group, Conditions | None], list[Probe]]:
    """The recorded answers for one operation, and the samples that the device supports."""
    recorder = _Recorder(runtime, device, supported=[])
    recorder.add(_batches(_probes(seeds_of(spec))))
    return recorder.groups, recorder.supported or []


_Batch: TypeAlias = tuple[Sequence[Probe], Model]
"""Probes that are asked about in one query, and their model."""


def _batches(probes: Iterable[Probe]) -> list[_Batch]:
    """The probes in batches of one feature level, relaxed or not; the first ones of groups first.

    The order within a group is kept for probes that need the same.
    """
    batches = list[_Batch]()
    by_need = sorted(probes, key=lambda p: (p.use.relaxed, p.level))
    for _, members in groupby(by_need, key=lambda p: (p.use.relaxed, p.level)):
        alike = list(members)
        for start in range(0, len(alike), _MOST_ASKED):
            batch = alike[start : start + _MOST_ASKED]
            batches.append((batch, model_of([p.use for p in batch])))
    return batches


def _probes(samples: Iterable[Sample]) -> Iterator[Probe]:
    """The legal samples and their variations, without those of an equal form.

    A variation that begins another group, because it changes a rank, is varied within that group.
    """
    seen: set[Form] = set()
    groups: set[Group] = set()
    for sample in samples:
        first = _probe(sample)
        if first is None:
            continue
        found = [first, *_varied(first)]
        groups.add(first.group)
        for probe in found[1:]:
            if probe.group not in groups:
                groups.add(probe.group)
                found += [p for p in _varied(probe) if p.group == probe.group]
        for probe in found:
            if probe.form not in seen:
                seen.add(probe.form)
                yield probe


def _varied(probe: Probe) -> Iterator[Probe]:
    return filter(None, map(_probe, variations(probe.sample)))


def _probe(sample: Sample) -> Probe | None:
    found = use_of(sample)
    return None if found is None else Probe(sample, *found, form_of(found[0]))


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Asks one device, and collects the conditions of each group and, if wanted, what it takes."""

    runtime: Runtime
    device: Device
    groups: dict[Group, Conditions | None] = field(default_factory=dict)
    supported: list[Probe] | None = None

    def add(self, batches: Sequence[_Batch]) -> None:
        """Asks about the samples of an operation.

        Where a group's first sample is declined and another one is not, the variations are made
        from that one, because every variation of a declined sample may be declined with it.
        """
        answers: dict[Group, dict[TraitNames, bool]] = {}
        first: dict[Group, Probe] = {}
        bases: dict[Group, Probe] = {}
        for probe, yes in self._answers(batches):
            answers.setdefault(probe.group, {})[probe.form.traits] = yes
            first.setdefault(probe.group, probe)
            if yes:
                bases.setdefault(probe.group, probe)
        moved = [probe for group, probe in bases.items() if probe is not first[group]]
        more = (v for p in moved for v in _varied(p) if v.group == p.group)
        for probe, yes in self._answers(_batches(more)):
            answers[probe.group][probe.form.traits] = yes
        for group, found in answers.items():
            base = bases.get(group)
            self.groups[group] = None if base is None else Conditions.of(found, base.form.traits)

    def _answers(self, batches: Sequence[_Batch]) -> Iterator[tuple[Probe, bool]]:
        for probes, model in batches:
            if probes[0].level <= self.runtime.feature_level:
                answers = [*zip(probes, self._ask(model, probes), strict=True)]
                if self.supported is not None:
                    self.supported.extend(probe for probe, yes in answers if yes)
                yield from answers

    def _ask(self, model: Model, probes: Sequence[Probe]) -> list[bool]:
        """The device's answers, in one query; if that fails, in smaller ones.

        An operation whose query fails alone is not supported.
        """
        try:
            return list(self.runtime.supported(model, self.device))[: len(probes)]
        except RuntimeFailure:
            if len(probes) == 1:
                return [False]
        middle = len(probes) // 2
        halves = probes[:middle], probes[middle:]
        return [yes for half in halves for yes in self._ask(model_of([p.use for p in half]), half)]


class RecordingRuntime:
    """A runtime that also records the answers for every operation that it is asked about."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.feature_level = runtime.feature_level
        self.devices, self.share, self.compile = runtime.devices, runtime.share, runtime.compile
        self.exact: dict[str, bool] = {}

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """The device's answers, which are recorded."""
        answers = self._runtime.supported(model, device)
        digests = (use.digest for use in uses(model))
        self.exact.update(zip(digests, answers, strict=True))
        return answers
