"""Philox 4x32-10, a counter-based random number generator.

Source: J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counters: Words, key: tuple[int, int]) -> Words:
    """Random 32-bit words [n, 4] for `counters` [n, 4] of 32-bit words.

    >>> [hex(w) for w in philox(np.zeros((1, 4), np.uint64), (0, 0))[0]]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = counters.T
    for number in range(_ROUNDS):
        first, second = (
            np.uint64((k + number * step) & 0xFFFFFFFF) for k, step in zip(key, _WEYL, strict=True)
        )
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = (right >> _HALF) ^ b ^ first, right & _LOW
        c, d = (left >> _HALF) ^ d ^ second, left & _LOW
    return np.stack((a, b, c, d), axis=-1)


def uniform(count: int, seed: int, stream: int) -> NDArray[np.float64]:
    """The first `count` random numbers in [0, 1), with 52 bits, of a seed and a stream number.

    Same values as TensorFlow's generator on a CPU, which Android uses.
    """
    blocks = -(-count // 2)
    counters = np.empty((blocks, 4), np.uint64)
    counters[:, 0] = np.arange(blocks, dtype=np.uint64) & _LOW
    counters[:, 1] = np.arange(blocks, dtype=np.uint64) >> _HALF
    counters[:, 2], counters[:, 3] = _halves(stream)
    pairs = philox(counters, _halves(seed)).reshape(-1, 2)[:count]
    mantissas = (pairs[:, 0] & np.uint64(0xFFFFF)) << _HALF | pairs[:, 1]
    return mantissas / np.float64(1 << 52)


def _halves(number: int) -> tuple[int, int]:
    """The low and the high 32-bit word of a 64-bit number."""
    return number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF
