"""Damaged and forged containers through the C reader and client, under gcc's sanitizers."""

import random
import re
import shutil
import struct
import time
from pathlib import Path

import onnx
import pytest

from ep_nnapi.epcontext.container import pack
from ep_nnapi.lowering.model_builder import Lowered
from tests.epcontext.forging import branching, forged, lowered, quantized_digits, several
from tests.native.build import ROOT, Build, environment, needs_compiler
from tests.native.sessions import prepared
from tests.onnx_graph import parsed
from tests.preparation.damage import damaged
from tests.programs import ran

pytestmark = needs_compiler
BATCH = 5_000
VALGRIND = ("valgrind", "--leak-check=full", "--track-fds=yes", "--error-exitcode=98")


def read(
    reader: list[str], containers: list[bytes], folder: Path, litert: str = ""
) -> tuple[int, int]:
    """Numbers of refused and of run containers; a finding of a sanitizer fails.

    litert   path of the library that computes them, if one does
    """
    file = folder / "containers"
    file.write_bytes(b"".join(struct.pack("<Q", len(c)) + c for c in containers))
    words = [*reader, file, *filter(None, [litert])]
    done = ran(*words, timeout=500, env=environment())
    refused, run = map(int, re.findall(r"\d+", done.stdout))
    return refused, run


def drawn(sources: list[bytes], rng: random.Random, without: str = "") -> bytes:
    """One container with damage, or several facts changed and a new checksum.

    without   name of a table of which nothing is changed
    """
    data = rng.choice(sources)
    if rng.random() < 0.2:
        return damaged(data, rng)[1]
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = forged_again(data, rng, without)
    return data


def forged_again(data: bytes, rng: random.Random, without: str) -> bytes:
    """Containers whose tables do not lie where the header says cannot be forged once more."""
    try:
        return forged(data, rng, without)
    except Exception:
        return data


def sources() -> list[bytes]:
    makers: list[Lowered] = [lowered(), branching(), quantized_digits()]
    packed = [*map(pack, makers), pack(*several())]
    return [one.with_embedded_weights() for one in packed]


def test_sound_containers_run(reader: list[str], tmp_path: Path) -> None:
    assert read(reader, sources(), tmp_path) == (0, 4)


def test_short_and_empty_ones_are_refused(reader: list[str], tmp_path: Path) -> None:
    """Every length up to the header's, and each container without its end."""
    data = sources()[0]
    cut = [data[:n] for n in range(260)] + [one[:-1] for one in sources()]
    assert read(reader, cut, tmp_path) == (len(cut), 0)


def test_an_empty_file_of_weights(build: Build, tmp_path: Path) -> None:
    """Is not mapped, and nothing is added to the address that it has not."""
    model = prepared(parsed("(float[3] x) => (float[3] y) { y = Tanh (x) }"), tmp_path)
    (weights,) = model.parent.glob("*.weights")
    assert weights.stat().st_size == 0
    command = [str(build.program("nnapi_run")), str(model), "--runtime", str(build.stand_in)]
    ran(*command, timeout=100, env=environment())


@pytest.mark.long
def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    """In 1,000 programs made, run and freed; and in nnapi_run, whose weights are in a file."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    build = Build(tmp_path, "cc", ("-O1", "-g"))
    file = tmp_path / "containers"
    sound = sources() * 250
    file.write_bytes(b"".join(struct.pack("<Q", len(c)) + c for c in sound))
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path / "model")
    run = [str(build.program("nnapi_run")), str(model), "--runtime", str(build.stand_in)]
    for command, said in (
        ([str(build.program("read_many")), str(build.stand_in), str(file)], "0 refused, 1000 ran"),
        ([*run, "--runs", "3", "--outputs", str(tmp_path)], "then 3 runs"),
    ):
        done = ran(*VALGRIND, *command, timeout=590)
        assert said in done.stdout
        opened_by = re.findall(r"Open file descriptor.*\n==\d+==\s+(.*)", done.stderr)
        assert set(opened_by) <= {"<inherited from parent>"}, opened_by


@pytest.mark.parametrize("seed", [41])
def test_damaged_containers(seed: int, reader: list[str], tmp_path: Path) -> None:
    rng, whole = random.Random(seed), sources()
    refused, ran = read(reader, [drawn(whole, rng) for _ in range(1500)], tmp_path)
    assert refused > 500
    assert ran > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", [43])
def test_100000_damaged_containers(seed: int, reader: list[str], tmp_path: Path) -> None:
    """Fewer where the machine is slow: it ends after 20 minutes."""
    rng, whole, end = random.Random(seed), sources(), time.monotonic() + 1200
    for _ in range(0, 100_000, BATCH):
        read(reader, [drawn(whole, rng) for _ in range(BATCH)], tmp_path)
        if time.monotonic() > end:
            break
