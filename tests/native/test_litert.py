"""LiteRT programs of prepared models in the C plugin and nnapi_run, on the package's library."""

import os
import random
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from ep_nnapi.diagnostics.inspect_context import containers
from ep_nnapi.litert import package
from tests.litert.needs import LITERT
from tests.native import sessions
from tests.native.build import ROOT, environment, needs_compiler, sanitized
from tests.native.test_choice import FEEDS, MODEL, RIGHT, outcome
from tests.native.test_damage import BATCH, drawn, read
from tests.onnx_graph import parsed

pytestmark = [needs_compiler, LITERT]
SUM = "(float[2,3] x) => (float[2,3] y) { b = Exp (x)  y = Add (x, b) }"
DIGITS = onnx.load(ROOT / "models" / "digits.onnx")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions.prepared(MODEL, tmp_path_factory.mktemp("m"), alternatives="litert,nnapi:1,cpu")


def test_the_library_that_is_named_computes(path: Path, tmp_path: Path) -> None:
    prefer = {"prefer": "litert-cpu,nnapi", "litert": package.library()[0], "litert_threads": "2"}
    found = outcome(path, tmp_path, **prefer)
    assert (found["alternative"], found["device"]) == ("litert on litert-cpu", "litert-cpu")
    assert (found["runs"], found["device_runs"], found["tried"]) == (2, 2, [])


def test_a_library_that_is_not_there_gives_way(path: Path, tmp_path: Path) -> None:
    found = outcome(path, tmp_path, prefer="litert-cpu,cpu", litert="/no/libLiteRt.so")
    assert found["alternative"] == "cpu"
    assert "LiteRT: /no/libLiteRt.so: cannot open" in found["tried"][0]["reason"]


@pytest.mark.parametrize("threads", ["0", "two", "1025"])
def test_threads_are_a_number(threads: str, path: Path) -> None:
    with pytest.raises(Exception, match=f"litert_threads is '{threads}'; it must be 1 to 1024"):
        sessions.session(path, litert_threads=threads)


def test_packed_weights_are_kept_for_later_starts(path: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    options = {"litert": package.library()[0], "litert_cache_dir": str(tmp_path / "cache")}
    outputs, times = set(), set()
    for _ in range(3):
        made = sessions.session(path, prefer="litert-cpu", **options)
        outputs.add(made.run(None, FEEDS)[0].tobytes())
        (packed,) = (tmp_path / "cache").iterdir()
        assert packed.suffix == ".packed"
        times.add(packed.stat().st_mtime_ns)
    assert len(outputs) == len(times) == 1
    options["litert_cache_dir"] = str(tmp_path / "not there")
    assert outcome(path, tmp_path, prefer="litert-cpu", **options)["device_runs"] == 2


def test_precision_is_one_of_two(path: Path, tmp_path: Path) -> None:
    """The CPU computes float32 in both."""
    options = {"prefer": "litert-cpu", "litert": package.library()[0]}
    outcome(path, tmp_path, litert_precision="float16", **options)
    with pytest.raises(Exception, match="must be one of float32, float16"):
        sessions.session(path, litert_precision="half")


def test_nnapi_run_takes_the_library_too(path: Path, tmp_path: Path) -> None:
    """Under sanitizers, and with no NNAPI library."""
    program = sanitized(tmp_path).program("nnapi_run")
    ((name, array),) = FEEDS.items()
    np.save(tmp_path / "in.npy", array)
    given = ("--input", f"{name}={tmp_path / 'in.npy'}", "--outputs", tmp_path, "--runs", "2")
    more = ("--receipt", tmp_path / "receipt.json")
    done = subprocess.run(
        [program, path, *given, *more, "--prefer", "litert-cpu", "--litert", package.library()[0]],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "litert-cpu" in done.stdout
    (out,) = (p for p in tmp_path.glob("*.npy") if p.stem != "in")
    np.testing.assert_allclose(np.load(out), RIGHT, rtol=1e-4, atol=1e-5)


def embedded(model: onnx.ModelProto, alternatives: str, folder: Path) -> bytes:
    """The container of a model's first cluster, with its weights."""
    path = sessions.prepared(model, folder, alternatives=alternatives, embed=True)
    _, data = next(containers(onnx.load(path)))
    return data


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Containers with a .tflite: beside other alternatives, and alone."""
    cases = [(parsed(SUM), "litert,nnapi:1,cpu"), (parsed(SUM), "litert"), (DIGITS, "litert")]
    return [embedded(*case, tmp_path_factory.mktemp("sound")) for case in cases]


def damage(sound: list[bytes], reader: list[str], seed: int, count: int, folder: Path) -> int:
    """How many of that many damaged containers LiteRT ran; a finding of a sanitizer fails.

    Bytes of a flatbuffer with a new checksum are LiteRT's to check: it aborts for some.
    """
    rng = random.Random(seed)
    made = [drawn(sound, rng, without="packed") for _ in range(count)]
    refused, run = read(reader, made, folder, package.library()[0])
    assert refused + run == count
    assert refused > count // 3
    return run


def test_damaged_containers(sound: list[bytes], reader: list[str], tmp_path: Path) -> None:
    assert read(reader, sound, tmp_path, package.library()[0]) == (0, len(sound))
    assert damage(sound, reader, 45, 200, tmp_path) > 10


@pytest.mark.long
def test_100000_damaged_containers(sound: list[bytes], reader: list[str], tmp_path: Path) -> None:
    """Fewer where the machine is slow: it ends after 10 minutes."""
    seed, end = int(os.environ.get("EP_NNAPI_SEED", "47")), time.monotonic() + 600
    for first in range(0, 100_000, BATCH):
        damage(sound, reader, seed + first, BATCH, tmp_path)
        if time.monotonic() > end:
            break
