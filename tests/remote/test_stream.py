"""A stream whose other side says anything: each request ends in time, in an answer or a failure."""

import os
import random
import struct
import time
import zlib
from collections import deque
from itertools import count
from threading import Thread

import numpy as np
import pytest

from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.remote import runtime as remote
from ep_nnapi.remote import stream
from ep_nnapi.remote import stream as module
from ep_nnapi.remote.runtime import RemoteRuntime
from tests.remote.test_runtime import add

SEED = int(os.environ.get("EP_NNAPI_SEED", "0")) or random.randrange(1 << 30)
X = np.ones(3, np.float32)
OUTPUT = struct.pack("<QQQiII", 1000, 2**64 - 1, 900, 1, 12, 3)
SOUND = {
    stream.Kind.HELLO: f"release=1\nprotocol=1\ncontainer={FORMAT_VERSION}\nabi=x86\n".encode(),
    stream.Kind.DEVICES: struct.pack("<III", 8, len(FUNCTIONS), 1)
    + bytes([1] * len(FUNCTIONS))
    + struct.pack("<iIII", 2, 8, 3, 1)
    + b"one1",
    stream.Kind.STORE: b"12 weights-1\n",
    stream.Kind.MODEL: struct.pack("<I", 1),
    stream.Kind.SUPPORTED: b"\1",
    stream.Kind.COMPILE: struct.pack("<Q", 1000),
    stream.Kind.RUN: OUTPUT + bytes(-len(OUTPUT) % 64) + X.tobytes(),
    stream.Kind.MEMORY: struct.pack("<Q", 1 << 20),
    stream.Kind.FREE: b"",
}


class Liar(stream.Stream):
    """A stream to an agent that answers each request at once, now and then wrongly."""

    draw: random.Random
    frames = 0
    stalls = 0

    def __init__(self, _: object) -> None:
        self._owner, self._numbers, self._said = os.getpid(), count(1), deque()
        self._output, self.other = os.pipe()
        self._listener = Thread(target=int)
        self._listener.start()
        self.closed = False

    def _write(self, parts: stream.Parts, _: float) -> None:
        kind, number = struct.unpack_from("<HI", parts[0], 6)
        data, ends = self.answer(stream.Kind(kind), number)
        Liar.frames += 1
        os.write(self.other, data)
        if ends:
            os.close(self.other)
            self.other = -1

    def answer(self, kind: stream.Kind, number: int) -> tuple[bytes, bool]:
        """A frame, and True if it is the last one."""
        draw, payload, code = self.draw, SOUND[kind], kind | 0x8000
        if draw.random() < 0.02:
            changed = bytearray(payload)
            for _ in range(draw.randrange(3) if changed else 0):
                changed[draw.randrange(len(changed))] = draw.choice((0, 1, 127, 128, 255))
            del changed[draw.randrange(len(changed) + 1) if draw.random() < 0.3 else len(changed) :]
            payload = bytes(changed)
            code = draw.choice((code, code, 0xFFFF, draw.randrange(1 << 16)))
        head = struct.pack("<4sHHIIII", b"NNAF", 1, code, number, 0, len(payload), 0)
        head += struct.pack("<I", zlib.crc32(payload))
        data = bytearray(head + struct.pack("<I", zlib.crc32(head)) + payload)
        what = draw.random()
        if what < 0.01:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif what < 0.015:
            del data[draw.randrange(len(data)) :]
            return bytes(data), True
        elif what < 0.0151 and kind is stream.Kind.RUN:  # nothing comes any more
            Liar.stalls += 1
            del data[draw.randrange(len(data)) :]
        return bytes(data), False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self._output)
            if self.other >= 0:
                os.close(self.other)


def used(runtime: RemoteRuntime, runs: int) -> None:
    device = runtime.devices()[0]
    runtime.supported(add(), device)
    compiled = runtime.compile(add(), device)
    runtime.agent().pushed()
    for _ in range(runs):
        assert compiled.run([X, X])[0].shape == (3,)
    assert runtime.agent().memory() >= 0


FRAMES = int(os.environ.get("EP_NNAPI_FRAMES", "3000"))


@pytest.mark.parametrize("frames", [FRAMES, pytest.param(100_000, marks=pytest.mark.long)])
def test_random_answers(frames: int, monkeypatch: pytest.MonkeyPatch):
    print("seed", SEED)  # noqa: T201 (to repeat a failure)
    monkeypatch.setattr(remote, "Stream", Liar)
    monkeypatch.setattr(remote, "LIMIT", 0.01)
    monkeypatch.setattr(module, "GRACE", 0.02)
    Liar.draw, Liar.frames, Liar.stalls = random.Random(SEED), 0, 0
    begin, failures, sound = time.monotonic(), 0, 0
    first = os.listdir("/proc/self/fd")
    while Liar.frames < frames:
        runtime = None
        try:
            runtime = RemoteRuntime("exec:liar", list)
            used(runtime, 40)
            sound += 1
        except (NnapiError, IndexError):
            failures += 1
        if runtime is not None:
            runtime._agent.close()
    took = time.monotonic() - begin
    print(Liar.frames, "frames", failures, "failures", Liar.stalls, "stalls", took)  # noqa: T201
    assert took < 60 + frames / 100
    assert failures > 0
    assert sound > 0
    assert len(os.listdir("/proc/self/fd")) <= len(first)  # earlier tests may leave some


def sealed(kind: int, number: int, length: int, crc: int, version: int = 1) -> bytes:
    checked = struct.pack("<4sHHIIIII", b"NNAF", version, kind, number, 0, length, 0, crc)
    return checked + struct.pack("<I", zlib.crc32(checked))


def test_a_request_is_what_the_document_says():
    made = stream.request_header(stream.Kind.RUN, 7, 3, 1500, (b"a", b"", b"bc"))
    fields = struct.unpack("<4sHHIIIIII", made)
    assert fields[:7] == (b"NNAF", 1, 8, 7, 3, 3, 1500)
    assert fields[7:] == (zlib.crc32(b"abc"), zlib.crc32(made[:-4]))
    assert len(made) == stream.HEADER_BYTES == 32


def test_replies_are_checked():
    good = stream.reply_header(sealed(0x8008, 7, 3, zlib.crc32(b"abc")))
    stream.check_reply(good, stream.Kind.RUN, 7, memoryview(b"abc"))
    for other in (
        (stream.Kind.RUN, 8, b"abc"),
        (stream.Kind.PUT, 7, b"abc"),
        (stream.Kind.RUN, 7, b"abd"),
    ):
        with pytest.raises(stream.Damaged, match=r"damaged|another request"):
            stream.check_reply(good, *other[:2], memoryview(other[2]))
    error = stream.reply_header(sealed(0xFFFF, 0, 0, 0))
    assert error.is_error
    stream.check_reply(error, stream.Kind.RUN, 7, memoryview(b""))


def test_every_damaged_bit_of_a_header_is_seen():
    good = sealed(0x8008, 7, 3, 0)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(stream.Damaged):
            stream.reply_header(bytes(bad))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (sealed(0x8008, 7, 3, 0, version=2), "it speaks protocol 2, this package 1"),
        (sealed(0x8008, 7, stream.MOST_BYTES + 1, 0), "a frame has more than 1 GB"),
    ],
)
def test_other_versions_and_sizes(header: bytes, says: str):
    with pytest.raises(stream.Damaged, match=says):
        stream.reply_header(header)
