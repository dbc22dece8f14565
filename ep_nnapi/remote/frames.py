"""Frames of the agent's protocol: kinds, headers and checksums; in C: native/agent_frames.h."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from functools import reduce
from typing import NamedTuple, TypeAlias

MAGIC = b"NNAF"
VERSION = 1
MOST_BYTES = 1 << 30
"""Largest payload."""
ALIGNMENT = 64
"""Tensors in a payload begin at multiples of it."""

_CHECKED = struct.Struct("<4sHHIIIII")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _CHECKED.size + _CHECKSUM.size
_REPLY = 0x8000
_ERROR = 0xFFFF


Parts: TypeAlias = Sequence[bytes | memoryview]
"""A payload, in parts that follow one another; memory is that of bytes."""


class Kind(IntEnum):
    """Kinds of requests."""

    HELLO = 1
    DEVICES = 2
    PUT = 3
    STORE = 4
    MODEL = 5
    SUPPORTED = 6
    COMPILE = 7
    RUN = 8
    MEMORY = 9
    FREE = 10


class Damaged(Exception):
    """What came is no frame, or not the reply to the request."""


class Header(NamedTuple):
    """Header of a frame; `kind` as it was sent."""

    kind: int
    id: int
    length: int
    payload_crc: int

    @property
    def is_error(self) -> bool:
        """True if the agent refuses or fails."""
        return self.kind == _ERROR


def request_header(kind: Kind, number: int, job: int, limit_ms: int, payload: Parts) -> bytes:
    """The header of a request with that payload."""
    crc = reduce(lambda before, part: zlib.crc32(part, before), payload, 0)
    size = sum(map(len, payload))
    checked = _CHECKED.pack(MAGIC, VERSION, kind, number, job, size, limit_ms, crc)
    return checked + _CHECKSUM.pack(zlib.crc32(checked))


def reply_header(data: bytes) -> Header:
    """The header of a reply; raises Damaged."""
    checked, (crc,) = data[: _CHECKED.size], _CHECKSUM.unpack(data[_CHECKED.size :])
    magic, version, kind, number, _, length, _, payload_crc = _CHECKED.unpack(checked)
    if magic != MAGIC or zlib.crc32(checked) != crc:
        raise Damaged("what it says is no frame of the protocol, or damaged")
    if version != VERSION:
        raise Damaged(f"it speaks protocol {version}, this package {VERSION}")
    if length > MOST_BYTES:
        raise Damaged("a frame has more than 1 GB")
    return Header(kind, number, length, payload_crc)


def check_reply(header: Header, kind: Kind, number: int, payload: memoryview) -> None:
    """Raise Damaged unless it is the reply to request `number`, or an error; checks the payload."""
    if zlib.crc32(payload) != header.payload_crc:
        raise Damaged("a frame's payload is damaged")
    if not header.is_error and (header.kind, header.id) != (kind | _REPLY, number):
        raise Damaged("a reply is to another request")
