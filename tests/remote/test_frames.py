"""Frames: made as the format says, and refused if anything of them is not."""

import struct
import zlib

import pytest

from ep_nnapi.remote.frames import (
    HEADER_BYTES,
    MOST_BYTES,
    Damaged,
    Kind,
    check_reply,
    reply_header,
    request_header,
)


def sealed(kind: int, number: int, length: int, crc: int, version: int = 1) -> bytes:
    checked = struct.pack("<4sHHIIIII", b"NNAF", version, kind, number, 0, length, 0, crc)
    return checked + struct.pack("<I", zlib.crc32(checked))


def test_a_request_is_what_the_document_says():
    made = request_header(Kind.RUN, 7, 3, 1500, (b"a", b"", b"bc"))
    fields = struct.unpack("<4sHHIIIIII", made)
    assert fields[:7] == (b"NNAF", 1, 8, 7, 3, 3, 1500)
    assert fields[7:] == (zlib.crc32(b"abc"), zlib.crc32(made[:-4]))
    assert len(made) == HEADER_BYTES == 32


def test_replies_are_checked():
    good = reply_header(sealed(0x8008, 7, 3, zlib.crc32(b"abc")))
    check_reply(good, Kind.RUN, 7, memoryview(b"abc"))
    for other in ((Kind.RUN, 8, b"abc"), (Kind.PUT, 7, b"abc"), (Kind.RUN, 7, b"abd")):
        with pytest.raises(Damaged, match=r"damaged|another request"):
            check_reply(good, *other[:2], memoryview(other[2]))
    error = reply_header(sealed(0xFFFF, 0, 0, 0))
    assert error.is_error
    check_reply(error, Kind.RUN, 7, memoryview(b""))


def test_every_damaged_bit_of_a_header_is_seen():
    good = sealed(0x8008, 7, 3, 0)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            reply_header(bytes(bad))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (sealed(0x8008, 7, 3, 0, version=2), "it speaks protocol 2, this package 1"),
        (sealed(0x8008, 7, MOST_BYTES + 1, 0), "a frame has more than 1 GB"),
    ],
)
def test_other_versions_and_sizes(header: bytes, says: str):
    with pytest.raises(Damaged, match=says):
        reply_header(header)
