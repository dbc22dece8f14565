"""Comparison of outputs: differences, tolerances, and a verdict on the less accurate provider.

The tolerance depends on an output's kind. It is counted in quanta if the output is quantized, else
relative to its spread: its largest value less its smallest, over all runs. Beyond it, a more exact
computation decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from math import inf, log10, sqrt

import numpy as np

from ep_nnapi.diagnostics.output_traits import QUANTA, TOLERANCES, OutputKind, OutputTraits
from ep_nnapi.nnapi.array import Array

Runs = Sequence[Mapping[str, Array]]
"""The outputs of each run, by name."""

_SIGNIFICANT_RATIO = 1.5
"""Smallest significant ratio of errors; equally accurate computations stay below it."""

_ROUNDINGS = 4
"""Rounding errors of the largest value that count as equal; matters if the spread is small."""

_PAIRS = 1 << 22
"""Largest number of pairs of box rows to match with each other: 32 MB for each column."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of one output from its expected values, over all runs.

    absolute   the largest difference; None if shapes differ or only one of two values is finite
    largest    the largest magnitude of the expected values
    spread     the largest expected value less the smallest; the magnitude of a single value
    tolerance  the largest allowed difference, in quanta or, without one, relative to the spread
    floor      a difference explained by rounding alone; None if the user gave a tolerance
    quantum    size of the output's steps, if it is quantized and the user gave no tolerance
    """

    output: str
    kind: OutputKind
    absolute: float | None
    largest: float
    spread: float
    tolerance: float
    floor: float | None = None
    quantum: float | None = None

    @property
    def relative(self) -> float:
        """`absolute` divided by `spread`; 0 or infinite for outputs without a spread."""
        if self.absolute is None:
            return inf
        if self.absolute == 0.0:
            return 0.0
        return self.absolute / self.spread if self.spread else inf

    @property
    def exceeds(self) -> bool:
        """True if it exceeds the tolerance."""
        if self.kind is OutputKind.RANDOM:
            return False
        if self.absolute is None:
            return True
        if self.quantum is not None:
            return self.absolute > self.tolerance * self.quantum + (self.floor or 0.0)
        rounded = self.floor is not None and self.absolute <= self.floor
        return self.relative > self.tolerance and not rounded

    @property
    def shows_nothing(self) -> bool:
        """True if it agrees, but is constant but for rounding, or has no finite values."""
        return self.spread <= (self.floor or 0.0) and not self.exceeds

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON, without infinite numbers."""
        relative = self.relative
        return {
            "output": self.output,
            "kind": str(self.kind),
            "absolute": self.absolute,
            "largest": self.largest,
            "spread": self.spread,
            "relative": None if relative == inf else relative,
            "tolerance": None if self.tolerance == inf else self.tolerance,
            "quantum": self.quantum,
            "beyond": self.exceeds,
            "shows_nothing": self.shows_nothing,
        }


class LessAccurate(StrEnum):
    """The less accurate provider, compared with a more exact computation."""

    NONE = "none"  # within the tolerance
    NNAPI = "nnapi"
    CPU = "cpu"
    ALIKE = "alike"
    UNKNOWN = "unknown"


_SEVERITY = (LessAccurate.NNAPI, LessAccurate.UNKNOWN, LessAccurate.ALIKE, LessAccurate.CPU)
"""Results for single outputs, in the order in which they decide the verdict on a model."""


@dataclass(frozen=True, slots=True)
class ReferenceOutputs:
    """A more exact computation of the same model: its outputs and a description."""

    outputs: Runs
    description: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a comparison.

    differences    one for each output
    less_accurate  the less accurate provider, if they differ beyond the tolerance
    errors         of NNAPI and of the CPU in the decisive output, relative to its spread
    description    of the computation that these errors refer to
    note           a known cause of the error, if any
    """

    differences: tuple[Difference, ...] = ()
    less_accurate: LessAccurate = LessAccurate.NONE
    errors: tuple[float, float] | None = None
    description: str = ""
    note: str = ""

    @property
    def negative(self) -> bool:
        """True if NNAPI is less accurate, or may be."""
        return self.less_accurate in (LessAccurate.NNAPI, LessAccurate.UNKNOWN)

    @property
    def shows_nothing(self) -> bool:
        """True if every output is constant or has no finite values, so nothing was verified."""
        found = self.differences
        return bool(found) and all(d.shows_nothing for d in found)

    @property
    def worst(self) -> float:
        """The largest relative difference."""
        return max((d.relative for d in self.differences), default=0.0)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        nnapi, cpu = self.errors or (None, None)
        return {
            "side": str(self.less_accurate),
            "shows_nothing": self.shows_nothing,
            "against": self.description or None,
            "nnapi_error": nnapi,
            "cpu_error": cpu,
            "note": self.note or None,
        }


def differences_of(
    got: Runs, want: Runs, traits: OutputTraits | None = None, tolerance: float | None = None
) -> tuple[Difference, ...]:
    """Returns the difference of each output; `tolerance` replaces the defaults of the kinds."""
    chosen = traits or OutputTraits()
    found = by_output(got, want).items()
    return tuple(_difference(name, pairs, chosen, tolerance) for name, pairs in found)


def by_output(got: Runs, want: Runs) -> dict[str, list[tuple[Array, Array]]]:
    """Returns the pairs of each output; lengths of sequences may differ between runs."""
    none, runs = np.empty(0), list(zip(got, want, strict=True))
    names = dict.fromkeys(name for w in (*want, *got) for name in w)
    return {n: [(g.get(n, none), w.get(n, none)) for g, w in runs] for n in names}


def _difference(
    name: str, pairs: Sequence[tuple[Array, Array]], traits: OutputTraits, tolerance: float | None
) -> Difference:
    first = next((w for _, w in pairs if w.size), pairs[0][1])
    kind = traits.kind(name, first)
    differences = [_largest_difference(g, w, kind) for g, w in pairs]
    worst = None if None in differences else max(a for a in differences if a is not None)
    largest, spread = _magnitude_and_spread([w for _, w in pairs])
    if tolerance is not None and kind is not OutputKind.RANDOM:
        return Difference(name, kind, worst, largest, spread, tolerance)
    half = kind is OutputKind.FLOAT16
    rounding = float(np.finfo(np.float16 if half else np.float32).eps) * largest
    if name in traits.up_to_one:
        rounding = max(rounding, float(np.finfo(np.float32).eps))
    floor = _ROUNDINGS * rounding if first.dtype.kind == "f" else 0.0
    quantum = traits.quantum(name, first)
    allowed = TOLERANCES[kind] if quantum is None else QUANTA
    return Difference(name, kind, worst, largest, spread, allowed, floor, quantum)


def _hidden_alike(array: Array) -> Array:
    """Returns float64 numbers, -inf for the type's least too: either of them hides a key."""
    found = array.astype(np.float64)
    if array.dtype.kind != "f":
        return found
    return np.where(found <= np.finfo(array.dtype).min, -inf, found)


def _magnitude_and_spread(arrays: Sequence[Array]) -> tuple[float, float]:
    """Returns the largest magnitude and the spread of the finite values of an output."""
    flat = np.concatenate([_hidden_alike(a).ravel() for a in arrays])
    numbers = flat[np.isfinite(flat)]
    if not numbers.size:
        return 0.0, 0.0
    largest = float(np.abs(numbers).max())
    return largest, float(np.ptp(numbers)) if flat.size > 1 else largest


def _largest_difference(got: Array, want: Array, kind: OutputKind) -> float | None:
    """Returns the largest difference; None if shapes differ or only one value is finite."""
    a, b = _hidden_alike(got), _hidden_alike(want)
    found = None
    if a.shape == b.shape:
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            differences = np.where(equal, 0.0, np.abs(a - b))
        found = float(differences.max(initial=0.0)) if np.isfinite(differences).all() else None
    if kind is OutputKind.BOXES and found != 0.0:
        matched = _matched(a, b)
        return min((m for m in (found, matched) if m is not None), default=None)
    return found


def _matched(got: Array, want: Array) -> float | None:
    """Returns the largest distance from a row to its nearest row in the other array, both ways."""
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


def verdict_of(
    got: Runs,
    want: Runs,
    found: tuple[Difference, ...],
    reference: Callable[[], ReferenceOutputs | None],
) -> Verdict:
    """Returns the verdict, with the less accurate provider if a difference exceeds its tolerance.

    got         NNAPI's outputs
    want        the CPU provider's outputs
    reference   returns a more exact computation, or None; called only if needed
    """
    exceeding = [d for d in found if d.exceeds]
    if not exceeding:
        return Verdict(found)
    exact = reference()
    if exact is None:
        return Verdict(found, LessAccurate.UNKNOWN)
    ours, theirs = (
        {d.output: d for d in differences_of(outputs, exact.outputs)} for outputs in (got, want)
    )
    candidates = [_less_accurate(ours.get(d.output), theirs.get(d.output), d) for d in exceeding]
    worst = min(candidates, key=_SEVERITY.index)
    name = exceeding[candidates.index(worst)].output
    errors = (ours[name].relative, theirs[name].relative) if name in ours else (inf, inf)
    known = errors if max(errors) < inf else None
    return Verdict(found, worst, known, exact.description)


def _less_accurate(
    nnapi: Difference | None, cpu: Difference | None, found: Difference
) -> LessAccurate:
    """Returns the less accurate provider for one output, from the errors of both.

    found  the difference between both; errors that are only some quanta apart are alike
    """
    if nnapi is None or cpu is None or cpu.absolute is None:
        return LessAccurate.UNKNOWN
    if nnapi.absolute is None:
        return LessAccurate.NNAPI
    scale = cpu.spread or cpu.largest
    if min(nnapi.absolute, cpu.absolute) > scale:  # the reference agrees with neither
        return LessAccurate.UNKNOWN
    near, far = sorted((nnapi.absolute, cpu.absolute))
    if far <= max(_SIGNIFICANT_RATIO * near, near + QUANTA * (found.quantum or 0.0)):
        return LessAccurate.ALIKE
    return LessAccurate.NNAPI if nnapi.absolute == far else LessAccurate.CPU


NOTHING = "This comparison proves nothing: "


def difference_sentence(found: Sequence[Difference]) -> str:
    """Returns a sentence on the output with the largest difference and its tolerance."""
    worst = max(found, key=lambda d: (d.exceeds, d.relative))
    if worst.absolute is None:
        return f"{worst.output} has another shape, or numbers on one side only: no tolerance is met"
    way = "beyond" if worst.exceeds else "within"
    if worst.quantum is not None:
        measure = f"{worst.absolute / worst.quantum:.3g} times the quantum {worst.quantum:.3g}"
        return f"{measure} of {worst.output}: {way} the tolerance of {worst.tolerance:g}"
    if worst.exceeds and not worst.spread:
        return (
            f"{worst.output} is {worst.absolute:.3g} off where one value is expected throughout: "
            "no tolerance relative to a spread is met"
        )
    if worst.relative > worst.tolerance and not worst.exceeds:
        return f"{worst.absolute:.3g} in {worst.output}: no more than rounding explains"
    return f"{worst.relative:.3g} of its spread in {worst.output}: {way} the tolerance of " + (
        f"{worst.tolerance:g}"
    )


def accuracy_sentence(verdict: Verdict) -> str:
    """Returns a sentence on the less accurate provider; empty if all is within tolerance."""
    if verdict.less_accurate is LessAccurate.NONE:
        return ""
    if not verdict.description:
        return "No more exact computation is possible that would tell which of them is wrong."
    measure = f"Against {verdict.description}, "
    if verdict.errors is not None:
        measure += "NNAPI is off by {:.3g} and the CPU by {:.3g}: ".format(*verdict.errors)
    return (
        measure
        + {
            LessAccurate.NNAPI: "NNAPI is further off.",
            LessAccurate.CPU: "the CPU is further off.",
            LessAccurate.ALIKE: "NNAPI is no further off than the CPU.",
            LessAccurate.UNKNOWN: "that does not tell which of them is wrong.",
        }[verdict.less_accurate]
    )


def sentences(verdict: Verdict) -> list[str]:
    """Returns all sentences for a verdict."""
    found = verdict.differences
    if not found:
        return []
    if verdict.shows_nothing:
        return [_nothing_in(found)]
    random = ", ".join(d.output for d in found if d.kind is OutputKind.RANDOM)
    compared = [d for d in found if d.kind is not OutputKind.RANDOM]
    empty = [d for d in compared if d.shows_nothing]
    said = (
        difference_sentence(compared) if compared else "",
        f"{random}: made of random numbers, which cannot be compared." if random else "",
        accuracy_sentence(verdict),
        verdict.note,
        _nothing_in(empty) if empty else "",
    )
    return [sentence for sentence in said if sentence]


def _nothing_in(found: Sequence[Difference]) -> str:
    names = ", ".join(d.output for d in found)
    return f"{NOTHING}{names} holds one value throughout, but for rounding, or no finite numbers."


@dataclass(frozen=True, slots=True)
class ErrorMeasures:
    """Sums over the elements of an output, from which its errors follow.

    maximum   the largest absolute error; infinite if shapes differ or if only one of two elements
              is finite
    elements  number of elements that are finite in both, which the sums are over
    absolute  sum of the absolute errors
    noise     sum of the squared errors
    signal    sum of the squared expected values
    got       sum of the squared computed values
    product   sum of the products of expected and computed values
    """

    maximum: float = 0.0
    elements: int = 0
    absolute: float = 0.0
    noise: float = 0.0
    signal: float = 0.0
    got: float = 0.0
    product: float = 0.0

    @staticmethod
    def of(got: Array, want: Array) -> ErrorMeasures:
        """Returns the measures of one computed array against the expected one."""
        if got.shape != want.shape:
            return ErrorMeasures(inf)
        a, b = (_hidden_alike(x).ravel() for x in (got, want))
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        a, b, alike = a[both], b[both], bool((both | same).all())
        errors = np.abs(a - b)
        return ErrorMeasures(
            float(errors.max(initial=0.0)) if alike else inf,
            a.size,
            float(errors.sum()),
            float(errors @ errors),
            float(b @ b),
            float(a @ a),
            float(a @ b),
        )

    @staticmethod
    def over(runs: Iterable[ErrorMeasures]) -> ErrorMeasures:
        """Returns the measures over the elements of all runs."""
        parts = list(runs)
        first, *sums = (f.name for f in fields(ErrorMeasures))
        worst = max((getattr(p, first) for p in parts), default=0.0)
        return ErrorMeasures(worst, *(sum(getattr(p, name) for p in parts) for name in sums))

    @property
    def mean(self) -> float:
        """The mean absolute error; infinite as `maximum` is."""
        if self.maximum == inf:
            return inf
        return self.absolute / self.elements if self.elements else 0.0

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both as vectors; 1 if both are zero, 0 if one is."""
        length = sqrt(self.signal * self.got)
        if not length:
            return 1.0 if self.signal == self.got else 0.0
        return min(1.0, max(-1.0, self.product / length))

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise in dB; infinite without noise."""
        if self.maximum == inf:
            return -inf
        if not self.noise:
            return inf
        return 10 * log10(self.signal / self.noise) if self.signal else -inf

    def to_json(self) -> dict[str, float]:
        """Returns plain data for JSON."""
        return {
            "maximum": self.maximum,
            "mean": self.mean,
            "cosine": self.cosine,
            "snr_db": self.decibels,
        }
