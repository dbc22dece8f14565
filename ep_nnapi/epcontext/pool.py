"""The distinct constants of containers, in the order in which they are written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ep_nnapi.epcontext.layout import ALIGNMENT
from ep_nnapi.nnapi.array import Array

Range: TypeAlias = tuple[int, int]
"""An offset and a size, or an index and a count."""

_WORDS = ALIGNMENT // 8
_FACTORS = np.arange(1, 2 * _WORDS, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
_MOST_PLACES = 1 << 12
"""Places of a constant that are compared: zeros, for one, are everywhere."""


@dataclass
class ConstantPool:
    """The distinct constants; those that are parts of others stand in them.

    size  bytes of all constants, each padded to `ALIGNMENT`
    """

    arrays: list[Array] = field(default_factory=list)
    size: int = 0
    _found: dict[object, Range] = field(default_factory=dict)
    _same: dict[int, tuple[Range, Array]] = field(default_factory=dict)
    _within: dict[int, tuple[Array, int]] = field(default_factory=dict)

    def expect(self, constants: Iterable[Array]) -> None:
        """Looks for those of constants to come that are parts of others, as an LSTM's gates are."""
        self._within |= _nested([*{id(c): c for c in constants if c.size >= ALIGNMENT}.values()])

    def add(self, data: Array) -> Range:
        """Adds a constant unless its bytes are there; returns their offset and size in the pool."""
        if id(data) not in self._same:
            key = data.size, hashlib.sha256(data.data).digest()
            if key not in self._found:
                self._found[key] = self._place(data)
            self._same[id(data)] = (self._found[key], data)  # which keeps its id
        return self._same[id(data)][0]

    def _place(self, data: Array) -> Range:
        if id(data) not in self._within:
            return self.append(data)
        larger, offset = self._within[id(data)]
        return self.add(larger)[0] + offset, data.size

    def append(self, data: Array) -> Range:
        """Adds bytes at the end; returns their offset and size."""
        offset = self.size
        self.arrays.append(data)
        self.size += data.size + (-data.size % ALIGNMENT)
        return offset, data.size


def _nested(constants: Sequence[Array]) -> dict[int, tuple[Array, int]]:
    """The constants by id that are parts of larger ones, with the largest and the offset in it."""
    by_start: dict[int, list[Array]] = {}
    for each in constants:
        by_start.setdefault(int(_blocks(each[:ALIGNMENT])[0]), []).append(each)
    starts, found = np.array([*by_start], np.uint64), dict[int, tuple[Array, int]]()
    for larger in sorted(constants, key=len, reverse=True):
        blocks = _blocks(larger)
        for place in np.flatnonzero(np.isin(blocks, starts))[:_MOST_PLACES]:
            offset = int(place) * ALIGNMENT
            for each in by_start[int(blocks[place])]:
                if id(each) in found or each.size >= larger.size:
                    continue
                if np.array_equal(each, larger[offset : offset + each.size]):
                    found[id(each)] = (larger, offset)
    return found


def _blocks(data: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """A number for each block of `ALIGNMENT` bytes, the same for the same bytes."""
    count = data.size // ALIGNMENT
    words = data[: count * ALIGNMENT].view(np.uint64).reshape(count, _WORDS)
    return np.asarray((words * _FACTORS).sum(axis=1, dtype=np.uint64))


def padded(arrays: Sequence[Array]) -> Iterator[bytes]:
    """Yields the bytes of constants and their padding, block by block."""
    for array in arrays:
        yield array.tobytes()
        yield b"\0" * (-array.size % ALIGNMENT)
