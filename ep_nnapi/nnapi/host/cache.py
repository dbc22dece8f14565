"""Compilation cache: results of constant folding, stored in a file between compilations.

Preparation computes operations that read constants only. With a cache directory and a token, the
results are written to `TOKEN.DEVICE.nnapi` and read by the next compilation. The file has no model:
that always comes from the client. Its layout:

    prelude | records (key, offset, digest) | results, one after the other

A key is the SHA-256 of the operation, its operands' types and the constants, so a result is reused
for the same computation only, in any model. The size of a result is inferred from the model; the
file has only offsets. A file of another device or code version, or one that is truncated or
damaged, is ignored and replaced.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.nnapi.files import write_atomically
from ep_nnapi.nnapi.runtime import CompileOptions

logger = module_logger(__name__)

COUNTS: Counter[str] = Counter()
"""Counters of this process: results `computed` and `read`, files `stored` and `restored`."""

_MAGIC = b"NNAPI results 2\n"
_PRELUDE = struct.Struct(f"<{len(_MAGIC)}s32s32sI")
"""Magic, digest of device and code, digest of the records, number of records."""
_RECORD = struct.Struct("<32sQ32s")
"""Key, offset of the result in the file, digest of the result."""
_MOST = 1 << 16
"""Maximum number of records: limits what is read before any checksum is verified."""


class Cache:
    """Cached results: those of a file, and those computed in this compilation."""

    def __init__(self, file: BufferedReader | None, maker: bytes) -> None:
        """Read the records of `file`; raises ValueError if it is invalid.

        maker   digest of the device and the code
        """
        self._file, self._maker = file, maker
        self._records = {} if file is None else _records(file, maker)
        self._used: dict[bytes, tuple[Array, ...]] = {}
        self._complete = file is not None

    def results(
        self, key: bytes, outs: Sequence[Array], compute: Callable[[], list[Array]]
    ) -> list[Array]:
        """Return the results for `key`: read from the file into `outs`, or computed."""
        if key in self._records and self._read(*self._records[key], outs):
            found = list(outs)
            COUNTS["read"] += 1
        else:
            found = compute()
            COUNTS["computed"] += 1
            self._complete = False
        self._used[key] = tuple(found)
        return found

    def _read(self, offset: int, digest: bytes, outs: Sequence[Array]) -> bool:
        """Read results into `outs`; False if the checksum differs, then `outs` are undefined."""
        if self._file is None:
            return False
        self._file.seek(offset)
        check = hashlib.sha256()
        for out in outs:
            view = out.reshape(-1).view(np.uint8)
            if self._file.readinto(view.data) != view.size:
                return False
            check.update(view.data)
        return check.digest() == digest

    @property
    def complete(self) -> bool:
        """True if every requested result was in the file."""
        return self._complete

    def parts(self) -> Iterator[bytes | memoryview]:
        """Serialize all results of this compilation, as the parts of a file."""
        kept = dict(list(self._used.items())[:_MOST])
        offset = _PRELUDE.size + len(kept) * _RECORD.size
        records = []
        for key, arrays in kept.items():
            records.append(_RECORD.pack(key, offset, _digest(map(_bytes, arrays))))
            offset += sum(array.nbytes for array in arrays)
        table = b"".join(records)
        digest = hashlib.sha256(table).digest()
        yield _PRELUDE.pack(_MAGIC, self._maker, digest, len(kept)) + table
        for arrays in kept.values():
            yield from map(_bytes, arrays)


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _digest(parts: Iterator[memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _records(file: BufferedReader, maker: bytes) -> Mapping[bytes, tuple[int, bytes]]:
    """Read offset and digest by key; raises ValueError if the file is damaged or not ours."""
    prelude = file.read(_PRELUDE.size)
    if len(prelude) != _PRELUDE.size or not prelude.startswith(_MAGIC):
        raise ValueError("it is no whole file of results")
    _, made_by, digest, count = _PRELUDE.unpack(prelude)
    if made_by != maker:
        raise ValueError("it is of another device or code")
    if count > _MOST:
        raise ValueError(f"it has {count} records, at most {_MOST} are read")
    table = file.read(count * _RECORD.size)
    if len(table) != count * _RECORD.size or hashlib.sha256(table).digest() != digest:
        raise ValueError("its records are damaged or truncated")
    size = os.fstat(file.fileno()).st_size
    found = {key: (offset, digest) for key, offset, digest in _RECORD.iter_unpack(table)}
    if any(offset > size for offset, _ in found.values()):
        raise ValueError("it is truncated")
    return found


def key_of(described: object, constants: Sequence[Array]) -> bytes:
    """Return the key of a computation: the SHA-256 of `described`, as text, and its constants."""
    digest = hashlib.sha256(f"{described}\n{[(a.dtype.str, a.shape) for a in constants]}".encode())
    for array in constants:
        digest.update(_bytes(array))
    return digest.digest()


@contextmanager
def cached(options: CompileOptions, device: str, about: object) -> Iterator[Cache | None]:
    """Context manager: the cache of `options`, or None; written if the block ends without error.

    about   device properties that affect results, for example the version
    If the cache cannot be used, a warning is logged and the compilation continues.
    """
    if options.cache_dir is None or options.token is None:
        yield None
        return
    try:
        folder = opened(options.cache_dir)
    except OSError as error:
        logger.warning("the compilation cache is not used: %s", error)
        yield None
        return
    name = f"{options.token.hex()}.{device.replace(os.sep, '_')}.nnapi"
    try:
        yield from _through(folder, name, _maker(device, about))
    finally:
        os.close(folder)


def _through(folder: int, name: str, maker: bytes) -> Iterator[Cache]:
    """The cache of one file in the folder; the file is replaced at the end if incomplete."""
    file = _sound_file(folder, name)
    try:
        cache = _sound_cache(file, name, maker)
        yield cache
        if cache.complete:
            COUNTS["restored"] += 1
        elif _stored(folder, name, cache):
            COUNTS["stored"] += 1
    finally:
        if file is not None:
            file.close()


def _sound_file(folder: int, name: str) -> BufferedReader | None:
    """The file, open for reading; None if it does not exist or cannot be trusted."""
    try:
        return open_file(folder, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("%s is ignored: %s", name, error)
        return None


def _sound_cache(file: BufferedReader | None, name: str, maker: bytes) -> Cache:
    try:
        return Cache(file, maker)
    except (OSError, ValueError) as error:
        logger.warning("%s is ignored: %s", name, error)
        return Cache(None, maker)


def _stored(folder: int, name: str, cache: Cache) -> bool:
    """Write the file; False, with a warning, on failure."""
    try:
        write_file(folder, name, cache.parts())
    except OSError as error:
        logger.warning("what was prepared is not cached: %s", error)
        return False
    return True


def _maker(device: str, about: object) -> bytes:
    """The digest of everything else that affects results: device, code, library versions."""
    made_by = [device, repr(about), _code(), np.__version__, sys.version, sys.byteorder]
    return hashlib.sha256(json.dumps(made_by).encode()).digest()


@functools.cache
def _code() -> str:
    """The digest of this package's NNAPI source files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK, because opening a FIFO otherwise blocks until there is a writer."""


class UnsafeError(OSError):
    """Another user could have written the file or directory."""


def opened(path: str) -> int:
    """Return a descriptor of the directory; if missing, it is created for its user only.

    Raises OSError; UnsafeError if another user owns it or can write to it.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, _FOLDER)
    try:
        _check(os.fstat(folder), path)
    except UnsafeError:
        os.close(folder)
        raise
    return folder


def open_file(folder: int, name: str) -> BufferedReader:
    """Open a regular file of the directory for reading; raises OSError or UnsafeError."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeError(f"{name} is no regular file")
        _check(found, name)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def write_file(folder: int, name: str, parts: Iterable[bytes | memoryview]) -> None:
    """Create or replace a file by an atomic write; raises OSError and leaves no partial file."""
    write_atomically(name, parts, folder=folder, mode=0o600)


def _check(found: os.stat_result, name: str) -> None:
    if found.st_uid != os.geteuid():
        raise UnsafeError(f"{name} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeError(f"others can write into {name}; make it mode 0700")
