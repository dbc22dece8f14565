"""Programs of containers as bytes: their checksum, and those that are packed in another one."""

from __future__ import annotations

import hashlib
import zlib

from ep_nnapi.epcontext.layout import CHECKED_FROM, DICTIONARY, MOST_INFLATED


def with_checksum(program: bytes) -> bytes:
    """Returns header and tables with the checksum of their bytes in the header."""
    digest = hashlib.sha256(program[CHECKED_FROM:]).digest()
    return program[: CHECKED_FROM - len(digest)] + digest + program[CHECKED_FROM:]


def deflated(data: bytes, before: bytes = b"") -> bytes:
    """Returns the number of bytes and the bytes, deflated (RFC 1951) as following others."""
    known, memory = before[-DICTIONARY:], zlib.DEF_MEM_LEVEL
    for level in (9, 0):
        engine = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, memory, zdict=known)
        found = len(data).to_bytes(4, "little") + engine.compress(data) + engine.flush()
        if len(data) <= MOST_INFLATED * len(found):
            break
    return found


def inflated(data: bytes, before: bytes = b"") -> bytes:
    """Returns what was deflated; raises ValueError if it is no more than that."""
    size = int.from_bytes(data[:4], "little")
    engine = zlib.decompressobj(-zlib.MAX_WBITS, zdict=before[-DICTIONARY:])
    try:
        found = engine.decompress(data[4:], size + 1) if size <= MOST_INFLATED * len(data) else b""
    except zlib.error:
        found = b""
    if not size or len(found) != size or not engine.eof or engine.unused_data:
        raise ValueError("a packed alternative is corrupt")
    return found
