"""Candidates of tuning: provider, optimization level and options of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Runtime
from ep_nnapi.options.settings import FILE_OPTIONS, Chosen, Settings
from ep_nnapi.options.table import HOST, parse, to_strings
from ep_nnapi.options.target import NnapiFlag, flag_names
from ep_nnapi.options.values import Partitioning

NNAPI_AWARE = "nnapi-aware"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a model.

    level    of the saved model, as for `prepare`
    options  provider options; with the CPU at most `intra_op_num_threads`
    changes  short names of what differs from the first candidate of its provider and device
    """

    provider: Chosen
    level: str
    options: Mapping[str, object] = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for tables, unique among the candidates of one run."""
        if self.provider is Chosen.CPU:
            return ", ".join((f"CPU {self.level}", *self.changes))
        return ", ".join((f"NNAPI {self.options['device']}", self.level, *self.changes))

    @property
    def on_cpu(self) -> bool:
        """True if the provider is off."""
        return self.provider is Chosen.CPU

    def settings(self, measured: Mapping[str, object]) -> Settings:
        """Returns its settings; options that name files are left to the caller."""
        options = to_strings(parse(self.options))
        kept = {name: value for name, value in options.items() if name not in FILE_OPTIONS}
        return Settings(self.provider, self.level, kept, measured)


def on_the_cpu() -> Iterator[Candidate]:
    """Yields the candidates with the provider off: extended, all, and all on one thread."""
    yield Candidate(Chosen.CPU, "extended")
    yield Candidate(Chosen.CPU, "all")
    if (os.cpu_count() or 1) > 1:
        yield Candidate(Chosen.CPU, "all", {"intra_op_num_threads": 1}, ("1 thread",))


def on_devices(runtime: Runtime, given: Mapping[str, object]) -> Iterator[Candidate]:
    """Yields the first candidate of each device, or of the device that the options name."""
    named = parse(given).device
    names = [d.name for d in runtime.devices()] if named is None else [named]
    for name in names:
        yield Candidate(Chosen.NNAPI, NNAPI_AWARE, {**given, "device": name})


def variants(first: Candidate) -> Iterator[Candidate]:
    """Yields candidates that differ from the first one of a device in one respect.

    What the first one's options set is not varied.
    """
    given = first.options
    for level in ("basic", "extended"):
        yield replace(first, level=level)
    if "partitioning" not in given:
        yield _with(first, "worth_it", partitioning=str(Partitioning.WORTH_IT))
    if "flags" not in given:
        for flag in (NnapiFlag.USE_FP16, NnapiFlag.USE_NCHW):
            yield _with(first, flag_names(flag), flags=flag_names(flag))
    chosen = parse(given)
    own_threads = chosen.runtime == HOST and chosen.device != REFERENCE_DEVICE
    if own_threads and "intra_op_num_threads" not in given and (os.cpu_count() or 1) > 1:
        yield _with(first, "1 thread", intra_op_num_threads=1)


def combined(first: Candidate, better: list[Candidate]) -> Candidate:
    """Returns the candidate with the changes of several; of two levels or flags, the earlier."""
    result = first
    for candidate in better:
        new = {n: v for n, v in candidate.options.items() if first.options.get(n) != v}
        if candidate.level != first.level and result.level == first.level:
            result = replace(result, level=candidate.level)
        elif new and not new.keys() & (result.options.keys() - first.options.keys()):
            options, changes = {**result.options, **new}, (*result.changes, *candidate.changes)
            result = replace(result, options=options, changes=changes)
    return result


def without_nodes(candidate: Candidate, names: tuple[str, ...]) -> Candidate:
    """Returns the candidate that leaves these nodes to the CPU too."""
    before = parse(candidate.options).exclude
    count = f"{len(names)} node{'s' if len(names) > 1 else ''} left to the CPU"
    return _with(candidate, count, exclude=(*before, *names))


def _with(first: Candidate, change: str, **options: object) -> Candidate:
    merged = {**first.options, **options}
    return replace(first, options=merged, changes=(*first.changes, change))
