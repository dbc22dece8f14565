"""Weights of a session in shared memory, which drivers map instead of copying."""

from __future__ import annotations

import hashlib
import mmap
import os
import weakref
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import COPIED_AT_ONCE, ResultCode
from ep_nnapi.nnapi.forks import ForkableLock, renew_after_fork
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.library.binding import Functions, Handle, create, failed
from ep_nnapi.nnapi.library.memory_file import PAGE, MemoryFile
from ep_nnapi.nnapi.model import Data, Model, Operand


def is_large(data: Data) -> bool:
    """True if NNAPI does not copy the constant when it is set."""
    return data.size > COPIED_AT_ONCE


def large_constants(model: Model) -> list[Data]:
    """The large constants, those of submodels included."""
    found: list[Data] = []
    waiting, seen = [model], {id(model)}
    while waiting:
        for operand in waiting.pop().operands:
            value = operand.value
            if isinstance(value, Model) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
            elif isinstance(value, Data) and is_large(value):
                found.append(value)
    return found


def with_constants(model: Model, replaced: Mapping[int, Data]) -> Model:
    """The model with other constants of the same contents, given by the id of the old ones.

    A submodel that several operands share stays one object.
    """
    return _replacing(model, replaced, {}) if replaced else model


def _replacing(model: Model, replaced: Mapping[int, Data], done: dict[int, Model]) -> Model:
    def renewed(operand: Operand) -> Operand:
        value = operand.value
        if isinstance(value, Model):
            if id(value) not in done:
                done[id(value)] = _replacing(value, replaced, done)
            return replace(operand, value=done[id(value)])
        return replace(operand, value=replaced[id(value)]) if id(value) in replaced else operand

    return replace(model, operands=tuple(map(renewed, model.operands)))


ALIGNMENT = 64
"""Alignment of each constant: a cache line, and more than any NNAPI type needs."""

_CREATE = "Memory_createFromFd"
_Digest: TypeAlias = tuple[int, bytes]


class WeightPlace(NamedTuple):
    """A location in an NNAPI memory object."""

    memory: Handle
    offset: int


class SharedWeights:
    """The large constants of a session's models, each stored once, in one file in memory.

    Each model that brings new constants adds a segment to the file, with an NNAPI memory object of
    its own; a segment is given back when no model refers to it any more. Constants that are views
    of bytes mapped with numpy.memmap are not copied: an NNAPI memory object maps their file.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._file = MemoryFile()
        # of the address 0 of this process, by the id of the array that maps the memory object
        self._segments: dict[int, WeightPlace] = {}
        self._stored: weakref.WeakValueDictionary[_Digest, Array] = weakref.WeakValueDictionary()
        self._lock = ForkableLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin a new file in a forked child, because the old one is the parent's too."""
        self._file = MemoryFile()

    def share(self, model: Model) -> Model:
        """An equal model whose large constants are in shared memory.

        Raises RuntimeFailure if there is not enough memory, or if the library refuses it.
        """
        with self._lock:
            private = [d for d in large_constants(model) if not self._shared(d)]
            digests = {id(d): _digest(d) for d in private}
            wanted = {digests[id(d)]: d for d in private}
            views = {k: v for k in wanted if (v := self._stored.get(k)) is not None}
            views |= self._store({k: d for k, d in wanted.items() if k not in views})
            self._stored.update(views)
            return with_constants(model, {i: Data(views[key]) for i, key in digests.items()})

    def place(self, data: Data) -> WeightPlace | None:
        """The location of a constant of a model that `share` returned; None for small ones."""
        segment = self._segments.get(id(_root(data.bytes))) if is_large(data) else None
        if segment is None:
            return None
        return WeightPlace(segment.memory, segment.offset + data.bytes.ctypes.data)

    def _shared(self, data: Data) -> bool:
        """True if a constant is in shared memory; maps the file that it is a view of."""
        root = _root(data.bytes)
        if id(root) in self._segments:
            return True
        return isinstance(root, np.memmap) and self._map_file(root)

    def _store(self, constants: Mapping[_Digest, Data]) -> dict[_Digest, Array]:
        """Copies constants into a new segment; returns the copies."""
        if not constants:
            return {}
        offsets, size = _layout(constants)
        try:
            start, mapped = self._file.extend(size)
        except OSError as error:
            detail = f"there is no shared memory for {size} bytes of weights: {error.strerror}"
            raise failed(_CREATE, ResultCode.OUT_OF_MEMORY, detail) from None
        whole = np.frombuffer(mapped, np.uint8)
        for key, data in constants.items():
            whole[offsets[key] : offsets[key] + data.size] = data.bytes
        whole.flags.writeable = False
        self._add(whole, self._file.descriptor, start, whole.size, whole.ctypes.data)
        weakref.finalize(whole, self._file.give_back, start, whole.size, os.getpid()).atexit = False
        mapped.madvise(mmap.MADV_DONTNEED)  # the driver has them; the fallback maps them again
        return {key: whole[at : at + constants[key].size] for key, at in offsets.items()}

    def _map_file(self, root: np.memmap) -> bool:
        """Makes an NNAPI memory object of a mapped file; False if it has been replaced."""
        start = root.offset // PAGE * PAGE
        size = root.offset - start + root.nbytes
        try:
            descriptor = os.open(str(root.filename), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            now = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ, offset=start)
            if not np.array_equal(np.frombuffer(now, np.uint8)[root.offset - start :], root):
                return False
            self._add(root, descriptor, start, size, root.ctypes.data - (root.offset - start))
        except (OSError, ValueError):  # shorter than it was
            return False
        finally:
            os.close(descriptor)
        return True

    def _add(self, root: Array, descriptor: int, start: int, size: int, address: int) -> None:
        """Creates the memory object for the array that maps a part of a file."""
        arguments = (size, mmap.PROT_READ, descriptor, start)
        memory = create(self._functions, _CREATE, *arguments, needs=())
        self._segments[id(root)] = WeightPlace(memory, -address)
        weakref.finalize(root, self._segments.pop, id(root), None).atexit = False


def _layout(constants: Mapping[_Digest, Data]) -> tuple[dict[_Digest, int], int]:
    """The offset of each constant in a new segment, and the bytes that they take."""
    offsets, end = {}, 0
    for key, data in constants.items():
        offsets[key] = end
        end += -(-data.size // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _digest(data: Data) -> _Digest:
    return data.size, hashlib.sha256(data.bytes.data).digest()


def _root(array: Array) -> Array:
    """The array that `array` is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
