"""FarmHash Fingerprint64, vectorized over byte strings of equal length.

FarmHash's fingerprint is stable across versions, unlike its other hashes. Android uses it for
LSH_PROJECTION. Source: FarmHash (G. Pike, Google, 2014), Fingerprint64; its constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.nnapi.array import Array

Words: TypeAlias = NDArray[np.uint64]
Pair: TypeAlias = tuple[Words, Words]

SHORTEST = 4

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_CHUNK = 64
_START = (81, 0x226BB95B4E64B6D4, 0x134A747F856D0526)
"""Initial x, y, z: functions of the seed 81 only."""


def fingerprint64(keys: Array) -> Words:
    """Fingerprints [n] of `keys`, uint8 [n, length], length >= 4.

    >>> hex(fingerprint64(np.frombuffer(b"abcd", np.uint8).reshape(1, 4))[0])
    '0x1a5502de4a1f8101'
    """
    length = keys.shape[1]
    if length < SHORTEST:
        raise ValueError(f"keys of {length} bytes, the shortest have {SHORTEST}")
    mixer = _K2 + np.uint64(2 * length)
    if length < 8:
        low, high = _word(keys, 0, 4), _word(keys, length - 4, 4)
        return _mix(np.uint64(length) + (low << np.uint64(3)), high, mixer)
    if length <= 16:
        return _to_16(keys, mixer)
    if length <= 32:
        return _mix(*_ends(keys, _K1, mixer), mixer)
    return _to_64(keys, mixer) if length <= _CHUNK else _long(keys)


def _word(keys: Array, at: int, size: int = 8) -> Words:
    """The little-endian integer of `size` bytes at offset `at` of each key."""
    part = np.ascontiguousarray(keys[:, at : at + size])
    return part.view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotate(words: Words, by: int) -> Words:
    return (words >> np.uint64(by)) | (words << np.uint64(64 - by))


def _fold(words: Words) -> Words:
    return words ^ (words >> np.uint64(47))


def _mix(u: Words, v: Words, mixer: Words | np.uint64) -> Words:
    """Mix two words into one."""
    a = _fold((u ^ v) * mixer)
    return _fold((v ^ a) * mixer) * mixer


def _to_16(keys: Array, mixer: np.uint64) -> Words:
    a, b = _word(keys, 0) + _K2, _word(keys, keys.shape[1] - 8)
    return _mix(_rotate(b, 37) * mixer + a, (_rotate(a, 25) + b) * mixer, mixer)


def _ends(keys: Array, first: np.uint64, mixer: np.uint64) -> Pair:
    """Combine the first 16 and the last 16 bytes into two words."""
    length = keys.shape[1]
    a, b = _word(keys, 0) * first, _word(keys, 8)
    c, d = _word(keys, length - 8) * mixer, _word(keys, length - 16) * _K2
    return _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c


def _to_64(keys: Array, mixer: np.uint64) -> Words:
    length = keys.shape[1]
    a = _word(keys, 0) * _K2
    y, rest = _ends(keys, _K2, mixer)
    z = _mix(y, rest, mixer)
    e, f = _word(keys, 16) * mixer, _word(keys, 24)
    g = (y + _word(keys, length - 32)) * mixer
    h = (z + _word(keys, length - 24)) * mixer
    return _mix(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mixer)


@dataclass(frozen=True, slots=True)
class _State:
    """Hash state for keys longer than 64 bytes."""

    x: Words
    y: Words
    z: Words
    v: Pair
    w: Pair

    def after(self, chunk: list[Words], mixer: Words | np.uint64, carry: int) -> _State:
        """The state after 64 more bytes, given as eight words."""
        carried = np.uint64(carry)
        x = _rotate(self.x + self.y + self.v[0] + chunk[1], 37) * mixer
        y = _rotate(self.y + self.v[1] + chunk[6], 42) * mixer
        x = x ^ (self.w[1] * carried)
        y = y + self.v[0] * carried + chunk[5]
        z = _rotate(self.z + self.w[0], 33) * mixer
        v = _weak(chunk[:4], self.v[1] * mixer, x + self.w[0])
        w = _weak(chunk[4:], z + self.w[1], y + chunk[2])
        return _State(z, y, x, v, w)


def _weak(words: list[Words], a: Words, b: Words) -> Pair:
    """Mix four words and two seeds into two words."""
    a = a + words[0]
    b = _rotate(b + a + words[3], 21)
    total = a + words[1] + words[2]
    return total + words[3], b + _rotate(total, 44) + a


def _long(keys: Array) -> Words:
    count, length = keys.shape

    def chunk(at: int) -> list[Words]:
        return [_word(keys, at + 8 * i) for i in range(8)]

    nothing = np.zeros(count, np.uint64)
    x, y, z = (nothing + np.uint64(k) for k in _START)
    state = _State(x * _K2 + _word(keys, 0), y, z, (nothing, nothing), (nothing, nothing))
    for at in range(0, length - _CHUNK, _CHUNK):
        state = state.after(chunk(at), _K1, 1)
    v, w = state.v, state.w
    moved = w[0] + np.uint64((length - 1) % _CHUNK)
    v = (v[0] + moved, v[1])
    mixer = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    state = replace(state, v=v, w=(moved + v[0], w[1])).after(chunk(length - _CHUNK), mixer, 9)
    first = _mix(state.v[0], state.w[0], mixer) + _fold(state.y) * _K0 + state.z
    return _mix(first, _mix(state.v[1], state.w[1], mixer) + state.x, mixer)
