"""A started agent: what it says of itself and its devices, weights that it has, jobs."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, PREFIX, DeviceCode, ResultCode, failure
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.remote.stream import VERSION, Kind, Lost, Parts, Refusal, Stream

LIMIT = 600.0
"""Seconds after which the agent ends a job whose request has no limit of its own."""
QUESTION_LIMIT = 60.0
"""The same for models that are only asked about."""
QUESTIONS = 0
"""The job in which models are only asked about, one after the other."""
_PIECE = 4 << 20
_HEAD = struct.Struct("<III")
_DEVICE = struct.Struct("<iIII")
_PUT = struct.Struct("<32sQQ")
_SIZE = struct.Struct("<Q")
_FLAG = struct.Struct("<I")
_MALFORMED = (struct.error, LookupError, ValueError)


class Pushed(NamedTuple):
    """A file of weights on the agent's machine, and its size in bytes."""

    name: str
    size: int


class Agent:
    """An agent that serves one NNAPI library; thread-safe, requests are made one after the other.

    release        of ep-nnapi, of which the agent is
    abi            Android's name of its processor
    feature_level  the library's, 1 to 8
    functions      the library's, by their C names
    """

    def __init__(self, name: str, stream: Stream) -> None:
        """Ask for versions and devices.

        name  of the runtime, for messages
        Raises Lost, and OptionError if the agent is of another version or has no library.
        """
        self.name = name
        self._stream = stream
        self._lock = ForkableLock()
        self._jobs = count(QUESTIONS + 1)
        self._freed: deque[int] = deque()
        self._failed: set[int] = set()
        self._idle: list[int] = []
        said = bytes(self._asked(Kind.HELLO)).decode(errors="replace")
        facts = dict(line.partition("=")[::2] for line in said.splitlines())
        self.release, self.abi = facts.get("release", ""), facts.get("abi", "")
        self._check("protocol", facts, VERSION)
        self._check("container", facts, FORMAT_VERSION)
        data = bytes(self._asked(Kind.DEVICES))
        try:
            self.feature_level, self.functions, self.devices = _library(data)
        except _MALFORMED as error:
            raise Lost(f"an answer is malformed ({error})") from None

    @contextmanager
    def understanding(self, call: str) -> Iterator[None]:
        """Ends the stream, and has the call fail, if the block does not understand an answer."""
        try:
            yield
        except _MALFORMED as error:
            self._stream.close()
            raise self.lost(call, f"an answer is malformed ({error})") from None

    @property
    def usable(self) -> bool:
        """False once its stream has ended, and in a forked child."""
        return self._stream.usable

    def close(self) -> None:
        """End it."""
        self._stream.close()

    def _check(self, what: str, facts: dict[str, str], known: int) -> None:
        if facts.get(what) != str(known):
            raise OptionError(
                f"{self.name}: the agent (release {self.release or 'unknown'}) has {what} version "
                f"{facts.get(what, 'unknown')}, this package {known}; use an agent of this release"
            )

    def _asked(self, kind: Kind) -> Array:
        """The answer at the start, whose refusal is the caller's mistake: a library, a folder."""
        found = self._stream.request(kind, limit=LIMIT)
        if isinstance(found, Refusal):
            raise OptionError(f"{self.name}: {found.text}")
        return found

    @contextmanager
    def requests(self) -> Iterator[Callable[..., Array]]:
        """A function that makes requests; no other thread makes any in the block.

        Its parameters are the name of the NNAPI call that a failure is of, the kind, the payload,
        the job and the limit in seconds. It raises RuntimeFailure.
        """
        with self._lock:
            self._free_all()
            yield self._request

    def _request(
        self, call: str, kind: Kind, payload: Parts = (), job: int = 0, limit: float = LIMIT
    ) -> Array:
        try:
            found = self._stream.request(kind, payload, job, limit)
        except Lost as lost:
            raise self.lost(call, str(lost)) from None
        if not isinstance(found, Refusal):
            return found
        self._failed.add(job)
        raise _failure(call, found)

    def lost(self, call: str, why: str = "it has ended") -> RuntimeFailure:
        """The failure of a call because the agent is gone; another try starts a new one."""
        return failure(call, ResultCode.DEAD_OBJECT, f"{self.name} is lost: {why}")

    def new_job(self) -> int:
        """The number of a job, without a model; its worker may have started."""
        with self._lock:
            self._free_all()
            return self._idle.pop() if self._idle else next(self._jobs)

    def free(self, job: int) -> None:
        """End a job: now, or with the next request if one is made now.

        The worker of one that has not failed waits for the next one.
        """
        self._freed.append(job)
        if self._lock.acquire(blocking=False):
            try:
                self._free_all()
            finally:
                self._lock.release()

    def _free_all(self) -> None:
        while self._freed:
            job = self._freed.popleft()
            idle = not self._idle and job not in self._failed
            self._failed.discard(job)
            if self.usable:
                try:
                    done = self._stream.request(Kind.MODEL if idle else Kind.FREE, (), job)
                except Lost:
                    return
                if idle and not isinstance(done, Refusal):
                    self._idle.append(job)

    def put(self, request: Callable[..., Array], digest: bytes, data: Array) -> None:
        """Send weights, or the rest of them; those that the agent has are not sent again."""
        call = "Memory_createFromFd"
        have, at = -1, 0
        while at < data.size:
            piece = data[at : at + _PIECE].data if have >= 0 else b""  # first: what is there?
            reply = request(call, Kind.PUT, (_PUT.pack(digest, data.size, at), piece))
            before = have
            (have,) = self._sizes(call, _SIZE, reply)
            if have <= before:
                raise self.lost(call, f"it has {have} bytes of weights after {before}")
            at = have

    def _sizes(self, call: str, layout: struct.Struct, reply: Array) -> tuple[int, ...]:
        with self.understanding(call):
            return layout.unpack(bytes(reply))

    def memory(self) -> int:
        """The most bytes of memory that the worker for questions has had."""
        with self.requests() as request:
            return self._sizes("Memory", _SIZE, request("Memory", Kind.MEMORY))[0]

    def pushed(self, *, remove: bool = False) -> list[Pushed]:
        """The weights beside the agent; with `remove` they are removed.

        Raises RuntimeFailure.
        """
        with self.requests() as request:
            text = bytes(request("Memory_free", Kind.STORE, (_FLAG.pack(remove),)))
        with self.understanding("Memory_free"):
            lines = (line.partition(" ") for line in text.decode().splitlines())
            return sorted(Pushed(name, int(size)) for size, _, name in lines)


def _library(data: bytes) -> tuple[int, tuple[str, ...], tuple[Device, ...]]:
    """The level, the functions and the devices of an answer to DEVICES."""
    level, known, number = _HEAD.unpack_from(data)
    at = _HEAD.size + known
    functions = tuple(
        f.c_name for f, there in zip(FUNCTIONS, data[_HEAD.size : at], strict=True) if there
    )
    devices = []
    for _ in range(number):
        code, its_level, *lengths = _DEVICE.unpack_from(data, at)
        at += _DEVICE.size
        name, version = data[at : at + lengths[0]], data[at + lengths[0] :][: lengths[1]]
        at += sum(lengths)
        kind = DeviceCode(code) if code in set(DeviceCode) else DeviceCode.UNKNOWN
        texts = (text.decode(errors="replace") for text in (name, version))
        devices.append(Device(next(texts), kind, next(texts), its_level))
    if not 1 <= level <= HIGHEST_LEVEL or at != len(data):
        raise ValueError(f"a level of {level}, {len(data)} bytes for {at}")
    return level, functions, tuple(d for d in devices if 1 <= d.feature_level <= level)


def _failure(call: str, refusal: Refusal) -> RuntimeFailure:
    """The failure that the agent tells, whose sentence begins with the call and its code."""
    if refusal.code not in set(ResultCode) - {ResultCode.NO_ERROR}:
        return failure(call, ResultCode.BAD_DATA, refusal.text)
    code = ResultCode(refusal.code)
    about, told, rest = refusal.text.partition(f": {PREFIX}{code.name}")
    if told:
        return failure(about, code, rest.removeprefix(": "))
    return failure(call, code, refusal.text)
