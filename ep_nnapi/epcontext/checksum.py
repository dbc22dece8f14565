"""A checksum of an .onnx file within that file: what its contexts' own checksums do not cover.

It is the value of a metadata entry, and of all bytes of the file with zeros in its own place.
"""

from __future__ import annotations

import hashlib
import mmap
from functools import lru_cache
from pathlib import Path

from onnx import ModelProto

from ep_nnapi.errors import ModelError

_KEY = "ep_nnapi.sha256"
_ZEROS = "0" * 64
_ENTRY = _KEY.encode() + b"\x12\x40"
"""The entry as it is encoded: its key, and that 64 bytes of value (field 2) follow.

Source: ONNX StringStringEntryProto; Protocol Buffers, length-delimited fields.
"""


def leave_room(proto: ModelProto) -> None:
    """Adds the entry, to be filled in once the model has been written."""
    entry = proto.metadata_props.add()
    entry.key, entry.value = _KEY, _ZEROS


def seal(path: Path) -> None:
    """Fills in the checksum of a model with room for it."""
    start, digest = _digest(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(digest.encode())


def check_seal(path: Path) -> None:
    """Raises ModelError when the file is not what was sealed."""
    try:
        stat = path.stat()
        intact = _intact(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not intact:
        raise ModelError(f"{path} is corrupt or was changed; prepare the model again")


def check_bytes(data: bytes) -> None:
    """Raises ModelError when bytes of a sealed model are not what was sealed; others pass."""
    start, digest = _digest_of(data)
    if start >= 0 and data[start : start + len(_ZEROS)] != digest.encode():
        raise ModelError("the model is corrupt or was changed; prepare it again")


@lru_cache(maxsize=64)
def _intact(path: Path, *_when: int) -> bool:
    """Whether the checksum is there and right; found once for a file that stays as it is."""
    start, digest = _digest(path)
    if start < 0:
        return False
    with path.open("rb") as file:
        file.seek(start)
        return file.read(len(_ZEROS)) == digest.encode()


def _digest(path: Path) -> tuple[int, str]:
    """Where the checksum is, or -1, and what it should be."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _digest_of(data)


def _digest_of(data: bytes | mmap.mmap) -> tuple[int, str]:
    """As `_digest`, of the file's bytes."""
    start = data.rfind(_ENTRY)
    if start < 0:
        return -1, ""
    start += len(_ENTRY)
    with memoryview(data) as view:
        digest = hashlib.sha256(view[:start])
        digest.update(_ZEROS.encode())
        digest.update(view[start + len(_ZEROS) :])
    return start, digest.hexdigest()
