"""SHA-256 checksum of a whole .onnx file, stored in a metadata entry of that file.

It covers what the checksums of the EPContext containers do not. It is computed over all bytes of
the file, with ASCII zeros in place of the checksum itself.
"""

from __future__ import annotations

import hashlib
import mmap
from functools import lru_cache
from pathlib import Path

from onnx import ModelProto

from ep_nnapi.nnapi.errors import ModelError

_METADATA_KEY = "ep_nnapi.sha256"
_ZEROS = "0" * 64
_ENCODED_ENTRY = _METADATA_KEY.encode() + b"\x12\x40"
"""The encoded start of the entry: its key, then tag and length (64) of the value (field 2).

Source: ONNX StringStringEntryProto; Protocol Buffers, length-delimited fields.
"""


def add_placeholder(proto: ModelProto) -> None:
    """Adds the metadata entry with a placeholder; `write_checksum` fills it in afterwards."""
    entry = proto.metadata_props.add()
    entry.key, entry.value = _METADATA_KEY, _ZEROS


def write_checksum(path: Path) -> None:
    """Writes the checksum into a model file that has the placeholder of `add_placeholder`."""
    start, digest = _digest(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(digest.encode())


def verify_checksum(path: Path) -> None:
    """Raises ModelError if the checksum of a file is missing or wrong, or the file unreadable."""
    try:
        stat = path.stat()
        intact = _intact(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not intact:
        raise ModelError(f"{path} is corrupt or was changed; prepare the model again")


def verify_checksum_of_bytes(data: bytes) -> None:
    """Raises ModelError if a model's bytes contain a wrong checksum; models without one pass."""
    start, digest = _digest_of(data)
    if start >= 0 and data[start : start + len(_ZEROS)] != digest.encode():
        raise ModelError("the model is corrupt or was changed; prepare it again")


@lru_cache(maxsize=64)
def _intact(path: Path, *_when: int) -> bool:
    """Returns True if the checksum is present and correct; cached while the file is unchanged."""
    start, digest = _digest(path)
    if start < 0:
        return False
    with path.open("rb") as file:
        file.seek(start)
        return file.read(len(_ZEROS)) == digest.encode()


def _digest(path: Path) -> tuple[int, str]:
    """Returns the offset of the checksum in the file (-1 if missing) and its correct value."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _digest_of(data)


def _digest_of(data: bytes | mmap.mmap) -> tuple[int, str]:
    """Returns the same as `_digest`, for the bytes of a file."""
    start = data.rfind(_ENCODED_ENTRY)
    if start < 0:
        return -1, ""
    start += len(_ENCODED_ENTRY)
    with memoryview(data) as view:
        digest = hashlib.sha256(view[:start])
        digest.update(_ZEROS.encode())
        digest.update(view[start + len(_ZEROS) :])
    return start, digest.hexdigest()
