"""Frames of the agent's protocol, and a process whose standard streams carry them.

In C: native/agent.h. Requests are made one at a time.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import time
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from functools import reduce
from itertools import count, islice
from threading import Thread
from typing import NamedTuple, TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import printable

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


GRACE = 10.0
"""Seconds that a reply may be late, on top of the request's limit."""
_CODE = struct.Struct("<i")
_LAST_LINES = 5
_FIRST_BYTES = 1 << 26
_MOST_PARTS = 64
_PIPE_BYTES = 1 << 20


class Lost(Exception):
    """The stream has ended, is damaged, or does not answer; it is closed."""


class Refusal(NamedTuple):
    """An error of the agent: NNAPI's result code (0: another failure), and a sentence."""

    code: int
    text: str


class Stream:
    """The streams of a command that is started; used by one thread at a time.

    command  program and arguments; what it prints to standard error is told if it ends
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start the command; raises OSError."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # the terminal's signals are for this process
        )
        self._owner = os.getpid()
        self._numbers = count(1)
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._input, self._output = self._descriptors()
        os.set_blocking(self._input, False)
        for descriptor in (self._input, self._output):
            _widen(descriptor)
        self._listener = Thread(target=self._listen, daemon=True, name="nnapi_agent stderr")
        self._listener.start()
        self.closed = False

    def _descriptors(self) -> tuple[int, int]:
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise OSError("no streams")
        return process.stdin.fileno(), process.stdout.fileno()

    @property
    def usable(self) -> bool:
        """False if it is closed, or another process's."""
        return not self.closed and os.getpid() == self._owner

    def request(
        self, kind: Kind, payload: Parts = (), job: int = 0, limit: float = 60.0
    ) -> Array | Refusal:
        """The reply's payload, as bytes at a multiple of 64; raises Lost.

        limit  seconds after which the agent ends the job
        """
        number, until = next(self._numbers), time.monotonic() + limit + GRACE
        try:
            header = request_header(kind, number, job, int(limit * 1000), payload)
            with suppress(BrokenPipeError):  # why is in what it has said
                self._write((header, *payload), until)
            found = reply_header(bytes(self._read(HEADER_BYTES, until)))
            data = self._read(found.length, until)
            check_reply(found, kind, number, data.data)
        except Damaged as error:
            raise self._lost(str(error)) from None
        except (OSError, ValueError):  # closed descriptors
            raise self._lost("its stream is closed") from None
        if not found.is_error:
            return data
        return self._refused(found, bytes(data))

    def _refused(self, header: Header, data: bytes) -> Refusal:
        code = _CODE.unpack_from(data)[0] if len(data) >= _CODE.size else 0
        text = printable(data[_CODE.size :].decode(errors="replace"))
        if header.id == 0:  # of no request: it could not read one, and ends
            raise self._lost(text)
        return Refusal(code, text)

    def _write(self, parts: Parts, until: float) -> None:
        rest = deque(memoryview(part) for part in parts)
        while rest:
            self._wait(self._input, select.POLLOUT, until)
            written = os.writev(self._input, list(islice(rest, _MOST_PARTS)))
            while rest and written >= len(rest[0]):
                written -= len(rest.popleft())
            if rest:
                rest[0] = rest[0][written:]

    def _read(self, size: int, until: float) -> Array:
        """So many bytes; memory grows with what arrives."""
        have, data = 0, aligned(min(size, _FIRST_BYTES))
        while have < size:
            if have == data.size:
                grown = aligned(min(size, 2 * data.size))
                grown[:have] = data
                data = grown
            self._wait(self._output, select.POLLIN, until)
            read = os.readv(self._output, [data.data[have:]])
            if not read:
                raise self._lost("its stream has ended")
            have += read
        return data

    def _wait(self, descriptor: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise self._lost("it does not answer")

    def _listen(self) -> None:
        """Keeps the last lines that the command and drivers print."""
        if self._process.stderr is not None:
            with suppress(OSError, ValueError):
                for line in self._process.stderr:
                    self._said.append(printable(line.decode(errors="replace").strip())[:300])

    def _lost(self, why: str) -> Lost:
        self.close()
        self._listener.join(1.0)
        said = "; ".join(filter(None, self._said))
        return Lost(f"{why} ({said})" if said else why)

    def close(self) -> None:
        """End the command, whose end of the stream it is; in a forked child, only its copies."""
        if self.closed:
            return
        self.closed = True
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if os.getpid() != self._owner:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process.kill()
        self._process.wait()


def _widen(pipe: int) -> None:
    """A pipe that holds more takes fewer switches between processes; Linux alone has them."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # of its limit for a user's pipes
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def aligned(size: int) -> Array:
    """Bytes at a multiple of `ALIGNMENT`, with any contents."""
    whole = np.empty(size + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]
