"""Tolerances of results, by the rules of the tests of Android itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.profile.form import OperationUse

_HALF = (OperandCode.TENSOR_FLOAT16, OperandCode.FLOAT16)


class Tolerance(NamedTuple):
    """A result may differ by absolute + relative * |reference|, in stored numbers."""

    absolute: float
    relative: float


FLOAT32 = Tolerance(1e-5, 5 * 2.0**-23)
FLOAT16 = Tolerance(5 * 2.0**-10, 5 * 2.0**-10)
STEP = Tolerance(1, 0)
EXACT = Tolerance(0, 0)
"""Source: Android's NNAPI tests (TestHarness, `checkResults` and the generated tests)."""

_UNDEFINED = {("LSTM", 0), ("RANDOM_MULTINOMIAL", 0)}
"""Outputs by operation and number that are a scratch buffer, or drawn at random."""


class WorstError(NamedTuple):
    """The difference that is furthest from what is allowed, and what is allowed there."""

    error: float
    allowed: float

    @property
    def wrong(self) -> bool:
        """True if it is not allowed."""
        return not self.error <= self.allowed


def tolerance(use: OperationUse, code: OperandCode) -> Tolerance:
    """The tolerance of an output of type `code`."""
    if code is OperandCode.TENSOR_BOOL8:
        return EXACT
    if np.issubdtype(code.numpy, np.integer):
        return STEP
    half = use.relaxed or any(o.type in _HALF for o in (*use.inputs, *use.outputs))
    return FLOAT16 if half else FLOAT32


def error_of(use: OperationUse, found: list[Array], right: list[Array]) -> WorstError:
    """The worst difference of all outputs; another shape is an infinite one.

    Elements for which the reference has no number are not compared. Infinity may be the greatest
    number: Android's operations with a fused activation clamp to the finite range.
    """
    worst = WorstError(0.0, 0.0)
    for n, (got, want) in enumerate(zip(found, right, strict=True)):
        if got.shape != want.shape:
            return WorstError(np.inf, 0.0)
        if (use.spec.name, n) in _UNDEFINED or not want.size:
            continue
        at = _error(got, want, tolerance(use, use.outputs[n].type))
        worst = max(worst, at, key=lambda e: (e.error - e.allowed, e.error))
    return worst


def _error(got: Array, want: Array, allowed: Tolerance) -> WorstError:
    if np.issubdtype(want.dtype, np.floating):
        greatest = float(np.finfo(want.dtype).max)
        got, want = (a.astype(np.float64).clip(-greatest, greatest) for a in (got, want))
    a, b = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    limit = allowed.absolute + allowed.relative * np.abs(b)
    error = np.abs(a - b)
    error[np.isnan(a)] = np.inf
    error[np.isnan(b)] = 0
    at = int(np.argmax(error - limit))
    return WorstError(float(error[at]), float(limit[at]))
