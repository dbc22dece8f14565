"""What a model's constants alone decide, kept in a file between compilations.

Preparing computes every operation on constants. With a cache folder and a token, the results are
written to `TOKEN.DEVICE.nnapi` and read back the next time. The file holds numbers only; the model
always comes from the client:

    prelude | records (key, offset, digest) | results, one after the other

A key is the digest of the operation, its operands' types and the constants themselves, so a result
serves the very computation it came from, in whatever model that stands. How many bytes a result
has, the model says; a file only says where they are. A file of another device or code, a truncated
or a damaged one counts as none, and is written anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host import cache_folder
from ep_nnapi.nnapi.runtime import CompileOptions

logger = logging.getLogger(__name__)

COUNTS: Counter[str] = Counter()
"""Results `computed` and `read`, files `stored` and `restored` in this process."""

_MAGIC = b"NNAPI results 2\n"
_PRELUDE = struct.Struct(f"<{len(_MAGIC)}s32s32sI")
"""Magic, what made the file, digest of the records, their number."""
_RECORD = struct.Struct("<32sQ32s")
"""Key, offset in the file, digest of the bytes there."""
_MOST = 1 << 16
"""Records of a file: a bound of what is read before anything is known to be sound."""


class Cache:
    """The results of one file, and those that are to be added to it."""

    def __init__(self, file: BufferedReader | None, maker: bytes) -> None:
        """`maker`: the digest of the device and the code; raises ValueError for a bad file."""
        self._file, self._maker = file, maker
        self._records = {} if file is None else _records(file, maker)
        self._used: dict[bytes, tuple[Array, ...]] = {}
        self._complete = file is not None

    def results(
        self, key: bytes, outs: Sequence[Array], compute: Callable[[], list[Array]]
    ) -> list[Array]:
        """The results of a computation, read into `outs` or computed."""
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
        """Whether the file had the bytes of `outs`; what they hold afterwards is void if not."""
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
        """Whether the file held everything that was asked for."""
        return self._complete

    def parts(self) -> Iterator[bytes | memoryview]:
        """The bytes of a file with all results of this compilation."""
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
    """Offset and digest by key; raises ValueError for a file that is not whole or not ours."""
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
    """The key of a computation: `described` as text, and its constants."""
    digest = hashlib.sha256(f"{described}\n{[(a.dtype.str, a.shape) for a in constants]}".encode())
    for array in constants:
        digest.update(_bytes(array))
    return digest.digest()


@contextmanager
def cached(options: CompileOptions, device: str, about: object) -> Iterator[Cache | None]:
    """The cache that `options` name, written when the block ends without an error; None: no cache.

    about   what of the device decides its results, for example its version
    A cache that cannot be used is no failure: a warning says why.
    """
    if options.cache_dir is None or options.token is None:
        yield None
        return
    try:
        folder = cache_folder.opened(options.cache_dir)
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
    """The cache of one file of the folder, which is replaced at the end where it lacks results."""
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
    """The file, open for reading; None where there is none that can be trusted."""
    try:
        return cache_folder.open_file(folder, name)
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
    """Whether the file could be written."""
    try:
        cache_folder.write_file(folder, name, cache.parts())
    except OSError as error:
        logger.warning("what was prepared is not cached: %s", error)
        return False
    return True


def _maker(device: str, about: object) -> bytes:
    """The digest of what decides a result besides its computation: device, code, libraries."""
    made_by = [device, repr(about), _code(), np.__version__, sys.version, sys.byteorder]
    return hashlib.sha256(json.dumps(made_by).encode()).digest()


@functools.cache
def _code() -> str:
    """The digest of the code that computes."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
