"""nnapi_agent under sanitizers: every frame has a reply, damaged and cut ones end the stream."""

import fcntl
import hashlib
import os
import random
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.epcontext.container import pack
from ep_nnapi.lowering.border import Border
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.remote.stream import Kind
from tests.native.build import (
    ARM64_ROOT,
    COMPILERS,
    Build,
    environment,
    is_arm64,
    needs_compiler,
    sanitized,
    skip_without,
    starter,
)
from tests.programs import ran
from tests.remote.test_runtime import add

SEED = int(os.environ.get("EP_NNAPI_SEED", "0")) or random.randrange(1 << 30)
SECONDS = float(os.environ.get("EP_NNAPI_SECONDS", "60"))
"""Of random frames in the long suite."""
DEVICE = b"stand-in"
PROGRAM = pack(Lowered(add(), Border((), ()))).with_embedded_weights()
X = np.ones(3, np.float32).tobytes()
RUN = struct.pack("<QQIIIiIIiII", 0, 0, 1, 2, 2, 1, 12, 3, 1, 12, 3)
RUN += bytes(-len(RUN) % 64) + X + bytes(52) + X
SOUND = {
    Kind.HELLO: b"",
    Kind.DEVICES: b"",
    Kind.PUT: bytes(32) + struct.pack("<QQ", 5, 0) + b"12345",
    Kind.STORE: bytes(4),
    Kind.MODEL: PROGRAM,
    Kind.SUPPORTED: DEVICE,
    Kind.COMPILE: struct.pack("<QII", 0, 1, 100) + DEVICE,
    Kind.RUN: RUN,
    Kind.MEMORY: b"",
    Kind.FREE: b"",
}


def frame(kind: int, payload: bytes, number: int = 1, job: int = 1, limit: int = 5000) -> bytes:
    checked = struct.pack(
        "<4sHHIIIII", b"NNAF", 1, kind, number, job, len(payload), limit, zlib.crc32(payload)
    )
    return checked + struct.pack("<I", zlib.crc32(checked)) + payload


@dataclass
class Served:
    """An agent with the stand-in library."""

    process: subprocess.Popen[bytes]

    @staticmethod
    def start(build: Build, folder: Path, *before: str) -> "Served":
        command = [*before, str(build.folder / "nnapi_agent"), "--folder", str(folder)]
        command += ["--runtime", str(build.folder / "libneuralnetworks.so"), "--idle", "30"]
        command += ["--emulator", before[0]] if before else []
        return Served(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment() | {"QEMU_LD_PREFIX": ARM64_ROOT},  # of workers, too
            )
        )

    def asked(self, data: bytes) -> tuple[int, bytes] | None:
        """The kind and the payload of the reply; None at the end of the stream."""
        with suppress(BrokenPipeError):  # what it said before is read
            self.process.stdin.write(data)
            self.process.stdin.flush()
        head = self.process.stdout.read(32)
        if len(head) < 32:
            assert head == b""
            return None
        kind, length, crc = (
            struct.unpack_from(what, head, at)[0]
            for what, at in (("<H", 6), ("<I", 16), ("<I", 24))
        )
        payload = self.process.stdout.read(length)
        assert head[:4] == b"NNAF"
        assert zlib.crc32(head[:28]) == struct.unpack("<I", head[28:])[0]
        assert (len(payload), zlib.crc32(payload)) == (length, crc)
        return kind, payload

    def ended(self) -> int:
        """The exit status after the end of its input; nothing is found by sanitizers."""
        with suppress(BrokenPipeError):  # of what was written after its end
            self.process.stdin.close()
        said = self.process.stderr.read().decode(errors="replace")
        status = self.process.wait(20)
        assert "ERROR: AddressSanitizer" not in said, said
        assert "runtime error" not in said, said
        return status


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    made = sanitized(tmp_path_factory.mktemp("agent"))
    made.program("nnapi_agent")
    assert made.stand_in.is_file()
    return made


@needs_compiler
def test_a_session(build: Build, tmp_path: Path) -> None:
    """Each request has its reply; freed workers leave no memory behind."""
    served = Served.start(build, tmp_path)
    for kind in (k for k in SOUND if k is not Kind.PUT):
        found = served.asked(frame(kind, SOUND[kind]))
        assert found is not None
        assert found[0] == kind | 0x8000, (kind, found)
    for _ in range(3):
        for kind in (Kind.MODEL, Kind.COMPILE, Kind.RUN, Kind.RUN):
            kind_of, payload = served.asked(frame(kind, SOUND[kind], job=2))
            assert kind_of == kind | 0x8000
        times, output = payload[:48], payload[-12:]
        assert output == X  # the stand-in computes its first input
        assert struct.unpack("<6Q", times)[1] == 2**64 - 1
    code, says = served.asked(frame(Kind.COMPILE, SOUND[Kind.COMPILE], job=2))
    assert (code, says[4:]) == (0xFFFF, b"the job is compiled already")
    assert served.ended() == 0


def ended_worker(served: Served) -> None:
    """Its only worker ends by SIGTERM, and is there until its status is asked for."""
    agent = served.process.pid
    (worker,) = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    os.kill(int(worker), signal.SIGTERM)
    while Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)


@needs_compiler
def test_a_driver_that_ends_between_requests(build: Build, tmp_path: Path) -> None:
    """The next request says how; another job, which is where the first one was, has no part."""
    served = Served.start(build, tmp_path)
    for job in (1, 2):
        for kind in (Kind.MODEL, Kind.COMPILE):
            assert served.asked(frame(kind, SOUND[kind], job=job))[0] == kind | 0x8000
        ended_worker(served)
        code, says = served.asked(frame(Kind.RUN, RUN, job=job))
        assert code == 0xFFFF
        assert says[4:] == b"the driver ended its process by signal 15 (Terminated)"
    assert served.ended() == 0


def changed(draw: random.Random, payload: bytes) -> bytes:
    """A payload with some of its bytes changed, cut or doubled."""
    data = bytearray(payload)
    for _ in range(draw.randrange(4) if data else 0):
        at = draw.randrange(len(data))
        data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    if draw.random() < 0.2:
        del data[draw.randrange(len(data) + 1) :]
    return bytes(data + data if draw.random() < 0.05 else data)


def drawn(draw: random.Random) -> Iterator[bytes]:
    """Frames with right checksums, whatever they hold, in an order that leads somewhere."""
    order = [Kind.MODEL, Kind.COMPILE, Kind.RUN, Kind.RUN, Kind.SUPPORTED, *SOUND]
    while True:
        for kind in order if draw.random() < 0.7 else draw.sample(order, len(order)):
            if kind is Kind.FREE and draw.random() < 0.9:  # a new worker is slow to start
                continue
            payload = SOUND[kind]
            if draw.random() < 0.35:
                payload = changed(draw, payload)
            number = kind if draw.random() < 0.98 else draw.randrange(1 << 16)
            job = draw.choice((0, 1, 1, 1, 2))
            yield frame(number, payload, draw.randrange(1 << 32), job)


@needs_compiler
@pytest.mark.parametrize("seconds", [2, pytest.param(SECONDS, marks=pytest.mark.long)])
def test_random_frames(seconds: float, build: Build, tmp_path: Path) -> None:
    """Every frame has a reply in time, also when it comes late; a damaged or cut one ends them."""
    draw, count, streams = random.Random(SEED), 0, 0
    print("seed", SEED)  # noqa: T201 (to repeat a failure)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        served, streams = Served.start(build, tmp_path), streams + 1
        for data in drawn(draw):
            count += 1
            if draw.random() < 0.002:  # damaged
                bad = bytearray(data)
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
                found = served.asked(bytes(bad))
                assert found is not None
                assert found[0] == 0xFFFF
                assert served.asked(data) is None
                assert served.ended() == 3
                break
            if draw.random() < 0.002:  # cut
                served.process.stdin.write(data[: draw.randrange(len(data))])
                assert served.ended() == 0
                break
            if draw.random() < 0.002:  # delayed
                cut = draw.randrange(len(data))
                served.process.stdin.write(data[:cut])
                served.process.stdin.flush()
                time.sleep(draw.random() / 50)
                found = served.asked(data[cut:])
            else:
                found = served.asked(data)
            assert found is not None
            assert b"status 99" not in found[1], found  # a sanitizer's finding in a worker
        served.process.stdout.close()
    print(count, "frames,", streams, "streams")  # noqa: T201
    assert count > 100 * seconds / 6


@needs_compiler
def test_agents_of_one_folder_take_turns(build: Build, tmp_path: Path) -> None:
    """What another one has finished meanwhile is there; nor is a file lost that one has left."""
    content, served = b"12345", Served.start(build, tmp_path)
    digest = hashlib.sha256(content).digest()
    question = digest + struct.pack("<QQ", len(content), 0)
    there = Kind.PUT | 0x8000, struct.pack("<Q", len(content))
    whole = tmp_path / f"weights-{digest.hex()}"
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as user:
        found = user.submit(served.asked, frame(Kind.PUT, question + content))
        time.sleep(0.1)
        assert not list(tmp_path.iterdir())
        whole.write_bytes(content)
        os.close(held)
        assert found.result(10) == there
    assert list(tmp_path.iterdir()) == [whole]
    whole.rename(f"{whole}.part")  # of an agent that was killed before it was renamed
    assert served.asked(frame(Kind.PUT, question)) == there
    assert list(tmp_path.iterdir()) == [whole]
    assert served.ended() == 0


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_every_compiler(compiler: tuple[str, ...], tmp_path: Path) -> None:
    """No warning; the agent serves, for ARM64 under emulation."""
    skip_without(compiler)
    before = starter(compiler)
    made = Build(tmp_path, compiler[0], ("-O2", *compiler[1:]))
    made.program("nnapi_agent")
    assert made.stand_in.is_file()
    served = Served.start(made, tmp_path, *before)
    for kind in (Kind.HELLO, Kind.MODEL, Kind.COMPILE, Kind.RUN):
        code, payload = served.asked(frame(kind, SOUND[kind], limit=60000))
        assert code == kind | 0x8000, payload
        if kind is Kind.HELLO:
            assert (b"abi=arm64-v8a" in payload) == is_arm64(compiler)
    assert payload[-12:] == X
    assert served.ended() == 0


@needs_compiler
def test_the_help_and_wrong_words(build: Build) -> None:
    program = build.folder / "nnapi_agent"
    assert ran(program, "--help").stdout.startswith("usage: nnapi_agent [option...]")
    for words, says in (
        (("--idle", "0"), "--idle is '0'; it must be 1 to 1000000 seconds"),
        (("--runtime",), "--runtime needs a value; --help shows how"),
        (("--what", "x"), "--what is unknown; --help shows the options"),
    ):
        done = ran(program, *words, status=2, env=environment())
        assert done.stderr == f"nnapi_agent: {says}\n"


@needs_compiler
def test_it_ends_when_nobody_asks(build: Build, tmp_path: Path) -> None:
    command = [build.folder / "nnapi_agent", "--folder", tmp_path, "--idle", "1"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.wait(10) == -14  # SIGALRM
