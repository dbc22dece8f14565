"""Fixed-point arithmetic of Android's quantized LSTMs.

A number with `b` integer bits is stored in 16 bits as round(x * 2**(15 - b)); arrays hold the
stored integers, in int64. Intermediate rounding is part of an operation's definition, because the
steps of the state may be as small as one rounding. So it follows gemmlowp (fixedpoint.h), which
Android computes with, and the NDK's reference implementation (QuantUtils.h).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, sqrt

import numpy as np

from ep_nnapi.nnapi.array import Array

_BITS = 16
_WIDE = 32
ONE = (1 << (_BITS - 1)) - 1
"""The stored value for 1 without integer bits (the greatest number)."""
_MOST = (1 << (_WIDE - 1)) - 1


def saturate(values: Array, bits: int = _BITS) -> Array:
    """Saturates to the range of signed integers of `bits` bits."""
    limit = 1 << (bits - 1)
    return values.clip(-limit, limit - 1)


def divide(values: Array, exponent: Array | int) -> Array:
    """Divides by 2**exponent, rounding halves away from zero."""
    power: Array = np.left_shift(1, exponent)
    half = power >> 1
    found: Array = np.right_shift(values + half - ((values < 0) & (half > 0)), exponent)
    return found


def product(a: Array, b: Array | int, bits: int = _BITS) -> Array:
    """Returns the product, whose integer bits are the factors' sum; rounds halves up, saturates."""
    exact: Array = a * b
    return saturate((exact + (1 << (bits - 2))) >> (bits - 1), bits)


def rescale(values: Array, fewer: int, bits: int = _BITS) -> Array:
    """Converts to `fewer` fewer integer bits, or to more when `fewer` is negative."""
    return saturate(values << fewer, bits) if fewer > 0 else divide(values, -fewer)


def constant(number: float, integer_bits: int = 0, bits: int = _BITS) -> int:
    """Returns the stored value of a real number."""
    return round(number * (1 << (bits - 1 - integer_bits)))


@dataclass(frozen=True, slots=True, eq=False)
class Multiplier:
    """Nonnegative factors mantissa * 2**(shift - 31) for integers."""

    mantissa: Array
    shift: Array

    @staticmethod
    def of(factors: object) -> Multiplier:
        """Converts real factors to 31 bits; those below 2**-32 become 0."""
        fraction, exponent = np.frexp(np.asarray(factors, np.float64))
        mantissa = np.floor(fraction * 2.0 ** (_WIDE - 1) + 0.5).astype(np.int64)
        full = mantissa >> (_WIDE - 1)  # 1 where the mantissa was rounded up to a power of two
        shift = exponent + full
        return Multiplier(np.where(shift > -_WIDE, mantissa >> full, 0), shift)

    def __call__(self, values: Array, up: int = 0) -> Array:
        """Returns `values` * factors * 2**up; rounds after the product and after the shift."""
        shift = self.shift + up
        wide = saturate(np.left_shift(values, np.maximum(shift, 0)), _WIDE)
        return divide(product(wide, self.mantissa, _WIDE), np.clip(-shift, 0, _WIDE - 1))


def inverse_root(values: Array) -> Multiplier:
    """Returns 1 / sqrt of integers of 31 bits; those below 1 count as 1.

    Five Newton steps from 1, with 3 integer bits, on values normalized to 2**27 to 2**29.
    """
    bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1]
    pairs = (_WIDE - 1 - bits) // 2 - 1
    scaled = np.left_shift(values, np.maximum(2 * pairs, 0)) >> np.maximum(-2 * pairs, 0)
    half = divide(scaled >> 1, 1)
    root = np.full_like(scaled, constant(1, 3, _WIDE))
    for _ in range(5):
        cube = rescale(product(product(root, root, _WIDE), root, _WIDE), 6, _WIDE)
        step = product(root, constant(1.5, 3, _WIDE), _WIDE) - product(half, cube, _WIDE)
        root = rescale(step, 3, _WIDE)
    root = product(root, constant(sqrt(0.5), 0, _WIDE), _WIDE)
    shift = pairs - 11
    mantissa = np.where(values > 1, np.left_shift(root, np.maximum(shift, 0)), _MOST)
    return Multiplier(mantissa, np.where(values > 1, np.minimum(shift, 0), 0))


def logistic(values: Array) -> Array:
    """Logistic sigmoid of numbers with 3 integer bits; the result has none."""
    found: Array = _logistic_table()[values]
    return found


def tanh(values: Array, integer_bits: int = 3) -> Array:
    """Hyperbolic tangent of numbers with at most 6 integer bits; the result has none."""
    found: Array = _tanh_table(integer_bits)[values]
    return found


@cache
def _logistic_table() -> Array:
    """Returns the table of `logistic` of all 16-bit numbers; negative ones index from the end."""
    every = _every()
    half = _half_over(_exp_below_zero(-np.abs(every), 3))
    positive = rescale(half, 1)
    return np.where(every > 0, positive, np.where(every < 0, ONE - positive, constant(0.5)))


@cache
def _tanh_table(integer_bits: int) -> Array:
    """Returns the table of `tanh` of all 16-bit numbers; negative ones index from the end."""
    every = _every()
    inverse = _half_over(_exp_below_zero(-np.abs(every), integer_bits + 1))
    magnitude = rescale(inverse - constant(1, 2), 2)
    return np.sign(every) * magnitude


def _every() -> Array:
    return np.arange(1 << _BITS).astype(np.int16).astype(np.int64)


def _half_over(values: Array) -> Array:
    """Returns 2 / (1 + x) for x in [0, 1], with 2 integer bits, by Newton's division."""
    half = (values + ONE + 1) >> 1
    found = constant(48 / 17, 2) + product(half, constant(-32 / 17, 2))
    for _ in range(3):
        rest = constant(1, 2) - product(half, found)
        found = found + rescale(product(found, rest), 2)
    return found


def _exp_below_zero(values: Array, integer_bits: int) -> Array:
    """Returns exp(x), without integer bits, for x <= 0.

    A polynomial for the part in [-1/4, 0), times one constant factor per bit of the rest.
    """
    fraction_bits = _BITS - 1 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    part = (values & (quarter - 1)) - quarter
    rest = part - values
    found = _exp_of_quarter(rescale(part, integer_bits))
    for exponent in range(-2, integer_bits):
        factor = product(found, constant(exp(-(2.0**exponent))))
        found = np.where(rest & (1 << (fraction_bits + exponent)), factor, found)
    return np.where(values == 0, ONE, found)


def _exp_of_quarter(values: Array) -> Array:
    """Returns exp(x) for x in [-1/4, 0), by the degree-4 polynomial around -1/8."""
    middle = constant(exp(-1 / 8))
    x = values + constant(1 / 8)
    x2 = product(x, x)
    x3, x4 = product(x2, x), product(x2, x2)
    tail = divide(product(divide(x4, 2) + x3, constant(1 / 3)) + x2, 1)
    return saturate(middle + product(x + tail, middle))
