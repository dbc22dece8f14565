"""Measures of the error of an output: maximum, mean, cosine similarity, signal to noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import inf, log10, sqrt

import numpy as np

from ep_nnapi.nnapi.array import Array


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
        a, b = (np.asarray(x, np.float64).ravel() for x in (got, want))
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
