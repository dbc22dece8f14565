"""One judge of results: how far outputs are apart, what is near enough, and which side is off.

What is near enough depends on an output's kind, and is relative to the spread of its own values:
the largest less the smallest, over all runs. Beyond it a third, more exact computation decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from ep_nnapi.diagnostics.output_kinds import TOLERANCES, Kind, Traits
from ep_nnapi.graph.value import Array

Runs = Sequence[Mapping[str, Array]]
"""The outputs of each run, by name."""

_FURTHER = 1.5
"""Two computations that round equally well have by chance largest errors that differ by less."""

_ROUNDINGS = 4
"""Roundings of the largest value that are no difference, where it is large beside the spread."""

_PAIRS = 1 << 22
"""Rows of boxes times rows up to which they are matched with each other: 32 MB a column."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one output is from what it is compared with, over all runs.

    absolute   the largest difference; None where shapes differ or only one side is a number
    largest    the largest magnitude of a number there
    spread     the largest number less the smallest; of a single number its magnitude
    tolerance  what may be, relative to the spread
    floor      a difference that rounding alone makes; None where the tolerance was given
    """

    output: str
    kind: Kind
    absolute: float | None
    largest: float
    spread: float
    tolerance: float
    floor: float | None = None

    @property
    def relative(self) -> float:
        """`absolute` over the spread; of outputs without a spread 0 or infinite."""
        if self.absolute is None:
            return inf
        if self.absolute == 0.0:
            return 0.0
        return self.absolute / self.spread if self.spread else inf

    @property
    def beyond(self) -> bool:
        """Whether it is more than may be."""
        if self.absolute is None:
            return True
        rounded = self.floor is not None and self.absolute <= self.floor
        return self.relative > self.tolerance and not rounded

    @property
    def shows_nothing(self) -> bool:
        """Whether any computation of constants, or of no numbers, would have agreed as well."""
        return self.spread == 0.0 and not self.beyond

    def to_json(self) -> dict[str, object]:
        """Plain data, without infinite numbers."""
        relative = self.relative
        return {
            "output": self.output,
            "kind": str(self.kind),
            "absolute": self.absolute,
            "largest": self.largest,
            "spread": self.spread,
            "relative": None if relative == inf else relative,
            "tolerance": self.tolerance,
            "beyond": self.beyond,
            "shows_nothing": self.shows_nothing,
        }


class Side(StrEnum):
    """Who is further off from a third, more exact computation."""

    NONE = "none"  # within the tolerance
    NNAPI = "nnapi"
    CPU = "cpu"
    ALIKE = "alike"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Third:
    """A more exact computation of the same model: its outputs, and what it is, in words."""

    outputs: Runs
    described: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison shows.

    side        who is further off, where they differ beyond the tolerance
    errors      of NNAPI and of the CPU, relative to the spread, in the output that decided
    described   what these errors are against
    note        why a side is off, where that is known
    """

    differences: tuple[Difference, ...] = ()
    side: Side = Side.NONE
    errors: tuple[float, float] | None = None
    described: str = ""
    note: str = ""

    @property
    def negative(self) -> bool:
        """Whether NNAPI is the side that is further off, or may be."""
        return self.side in (Side.NNAPI, Side.UNKNOWN)

    @property
    def shows_nothing(self) -> bool:
        """Whether no output could have told a wrong computation from a right one."""
        found = self.differences
        return bool(found) and all(d.shows_nothing for d in found)

    @property
    def worst(self) -> float:
        """The largest relative difference."""
        return max((d.relative for d in self.differences), default=0.0)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        nnapi, cpu = self.errors or (None, None)
        return {
            "side": str(self.side),
            "shows_nothing": self.shows_nothing,
            "against": self.described or None,
            "nnapi_error": nnapi,
            "cpu_error": cpu,
            "note": self.note or None,
        }


def differences_of(
    got: Runs, want: Runs, traits: Traits | None = None, tolerance: float | None = None
) -> tuple[Difference, ...]:
    """How far each output is from what it should be; `tolerance` replaces that of each kind."""
    chosen = traits or Traits()
    none = np.empty(0)  # sequences may be longer in one run than in another
    names = dict.fromkeys(name for w in (*want, *got) for name in w)
    return tuple(
        _difference(
            name,
            [(g.get(name, none), w.get(name, none)) for g, w in zip(got, want, strict=True)],
            chosen,
            tolerance,
        )
        for name in names
    )


def _difference(
    name: str, pairs: Sequence[tuple[Array, Array]], traits: Traits, tolerance: float | None
) -> Difference:
    first = next((w for _, w in pairs if w.size), pairs[0][1])
    kind = traits.kind(name, first)
    apart = [_apart(g, w, kind) for g, w in pairs]
    worst = None if None in apart else max(a for a in apart if a is not None)
    largest, spread = _extent([w for _, w in pairs])
    if tolerance is not None:
        return Difference(name, kind, worst, largest, spread, tolerance)
    half = kind is Kind.FLOAT16
    rounding = float(np.finfo(np.float16 if half else np.float32).eps) * largest
    floor = _ROUNDINGS * rounding if first.dtype.kind == "f" else 0.0
    if kind is Kind.QUANTIZED:
        floor = max(floor, traits.steps.get(name, 0.0) if first.dtype.kind == "f" else 1.0)
    return Difference(name, kind, worst, largest, spread, TOLERANCES[kind], floor)


def _extent(arrays: Sequence[Array]) -> tuple[float, float]:
    """The largest magnitude and the spread of the finite numbers of an output."""
    flat = np.concatenate([a.astype(np.float64).ravel() for a in arrays])
    numbers = flat[np.isfinite(flat)]
    if not numbers.size:
        return 0.0, 0.0
    largest = float(np.abs(numbers).max())
    return largest, float(np.ptp(numbers)) if flat.size > 1 else largest


def _apart(got: Array, want: Array, kind: Kind) -> float | None:
    """The largest difference; None where shapes differ or only one is a number."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    found = None
    if a.shape == b.shape:
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            apart = np.where(equal, 0.0, np.abs(a - b))
        found = float(apart.max(initial=0.0)) if np.isfinite(apart).all() else None
    if kind is Kind.BOXES and found != 0.0:
        matched = _matched(a, b)
        return min((m for m in (found, matched) if m is not None), default=None)
    return found


def _matched(got: Array, want: Array) -> float | None:
    """The largest difference between rows and those nearest to them, in either direction."""
    if got.ndim < 1 or want.ndim != got.ndim or got.shape[1:] != want.shape[1:]:
        return None
    a, b = got.reshape(len(got), -1), want.reshape(len(want), -1)
    if len(a) != len(b) or not a.size or len(a) * len(b) > _PAIRS:
        return None
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    far = np.zeros((len(a), len(b)))
    for column in range(a.shape[1]):
        np.maximum(far, np.abs(a[:, column, None] - b[None, :, column]), out=far)
    return float(max(far.min(axis=0).max(), far.min(axis=1).max()))


def judged(
    got: Runs, want: Runs, found: tuple[Difference, ...], third: Callable[[], Third | None]
) -> Verdict:
    """Who is further off, where outputs differ by more than may be.

    got     NNAPI's outputs, and `want` the CPU provider's
    third   computes the model more exactly, or cannot; asked only where there is a need to
    """
    beyond = [d for d in found if d.beyond]
    if not beyond:
        return Verdict(found)
    exact = third()
    if exact is None:
        return Verdict(found, Side.UNKNOWN)
    ours, theirs = (
        {d.output: d for d in differences_of(side, exact.outputs)} for side in (got, want)
    )
    sides = [_further(ours.get(d.output), theirs.get(d.output)) for d in beyond]
    for side in (Side.NNAPI, Side.UNKNOWN, Side.ALIKE, Side.CPU):
        if side in sides:
            name = beyond[sides.index(side)].output
            break
    errors = (ours[name].relative, theirs[name].relative) if name in ours else (inf, inf)
    known = errors if max(errors) < inf else None
    return Verdict(found, side, known, exact.described)


def _further(nnapi: Difference | None, cpu: Difference | None) -> Side:
    """Who is further off in one output, from their differences from the exact one."""
    if nnapi is None or cpu is None or cpu.absolute is None or not cpu.spread:
        return Side.UNKNOWN
    if nnapi.absolute is None:
        return Side.NNAPI
    if min(nnapi.relative, cpu.relative) > 1:  # what agrees with neither tells nothing
        return Side.UNKNOWN
    if nnapi.absolute > _FURTHER * cpu.absolute:
        return Side.NNAPI
    return Side.CPU if cpu.absolute > _FURTHER * nnapi.absolute else Side.ALIKE
