"""Kernels of table lookup by key, locality-sensitive hashing and random sampling.

LSH_PROJECTION hashes by FarmHash's Fingerprint64, which is stable across versions, as on Android.
Source: FarmHash (G. Pike, Google, 2014), Fingerprint64; its constants. RANDOM_MULTINOMIAL draws by
Philox4x32-10. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real, stored
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.shapes.lookup import Projection
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8

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


def hashtable_lookup(
    lookups: Array, keys: Array, values: Array, *, out: tuple[Array, Array]
) -> None:
    """Stores the rows of `values` whose `keys` (ascending) equal `lookups`, and hit flags.

    A missing key gives a row of stored zeros.
    """
    found, hits = out
    found.fill(0)
    hits.fill(0)
    if keys.size:
        rows = np.minimum(np.searchsorted(keys, lookups), keys.size - 1)
        hit = keys[rows] == lookups
        found[hit] = values[rows[hit]]
        hits[hit] = 1


_BLOCK = 1 << 18
"""Bytes of keys hashed at once."""


def lsh_projection(
    hash: Array, input: Array, type: int, weight: Array | None = None, *, out: Array
) -> None:
    """Computes bits of hash functions: separate elements (DENSE), or one number per function.

    A bit is 1 if the weighted sum of the hashes of the input's items is positive. SPARSE adds an
    offset per function so that ranges are disjoint.
    """
    functions, width = hash.shape
    bits = _bits(hash.reshape(-1), input, weight)
    if type == Projection.DENSE:
        np.copyto(out, bits)
        return
    places = np.int64(1) << np.arange(width - 1, -1, -1)
    numbers = bits.reshape(functions, width) @ places
    if type == Projection.SPARSE:
        numbers += np.arange(functions) << width
    out[...] = numbers.astype(np.int32)


def _bits(seeds: Array, input: Array, weight: Array | None) -> Array:
    """Returns for each seed whether the weighted sum of the items' hashes is positive."""
    bytes_each = input.itemsize * prod(input.shape[1:])
    items = np.ascontiguousarray(input).view(np.uint8).reshape(input.shape[0], bytes_each)
    seed_bytes = seeds.astype(np.float32).view(np.uint8).reshape(-1, 4)
    weights = np.ones(len(items)) if weight is None else weight.astype(np.float64)
    length = 4 + items.shape[1]
    step = max(1, _BLOCK // max(1, len(items) * length))
    bits = np.empty(len(seeds), np.int64)
    for start in range(0, len(seeds), step):
        some = seed_bytes[start : start + step]
        keys = np.empty((len(some), len(items), length), np.uint8)
        keys[:, :, :4] = some[:, np.newaxis]
        keys[:, :, 4:] = items
        hashes = fingerprint64(keys.reshape(-1, length)).view(np.int64)
        bits[start : start + step] = hashes.reshape(len(some), -1) @ weights > 0
    return bits


def random_multinomial(input: Array, sample_count: int, seeds: Array, *, out: Array) -> None:
    """Draws classes with the probabilities softmax(input), row by row.

    The same seeds give the same draws as on Android's CPU implementation; two zeros mean
    new seeds in each run. A class whose input is not finite is never drawn; raises ShapeError for a
    row without a finite input.
    """
    finite = np.isfinite(input)
    if not finite.any(axis=1).all():
        raise ShapeError("a row of log-probabilities has no finite number")
    logits = np.where(finite, input, -np.inf).astype(np.float64)
    ends = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    targets = uniform(out.size, *_seeds(seeds)).reshape(out.shape) * ends[:, -1:]
    for drawn, end, target in zip(out, ends, targets, strict=True):
        drawn[...] = np.searchsorted(end, target, side="right")


def _seeds(seeds: Array) -> tuple[int, int]:
    if not seeds.any():
        seeds = np.random.SeedSequence().generate_state(2)
    first, second = seeds.tolist()
    return first, second


KERNELS = (
    stored(spec.HASHTABLE_LOOKUP, hashtable_lookup, F32, I32, Q8),
    stored(spec.LSH_PROJECTION, lsh_projection, F32, F16, I32, Q8),
    real(spec.RANDOM_MULTINOMIAL, random_multinomial, F32, F16),
)
