"""nnapi_run: devices, inputs and outputs in files, times; also for ARM64, under emulation."""

import os
import signal
import subprocess
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import onnx
import pytest

from ep_nnapi.bundling.bundle import read_prepared_model
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.files import file_name_of
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import ADD
from tests.native.build import ARM64, COMPILER, EMULATOR, Build, needs_compiler
from tests.native.forged_models import addition, crossing, forged
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session, session
from tests.nnapi.build import one
from tests.programs import ran

ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_compiler


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Build(tmp_path_factory.mktemp("run"), COMPILER or "cc")


@pytest.fixture(scope="module")
def program(build: Build) -> Path:
    return build.program("nnapi_run")


def run(*words: object, status: int = 0, runtime: object = LIBRARY) -> tuple[str, str]:
    command = [*map(str, words), "--runtime", str(runtime)]
    done = ran(*command, status=status, timeout=300)
    return done.stdout, done.stderr


def image(folder: Path) -> Path:
    images = np.load(ROOT / "models" / "digits" / "samples.npz")["images"]
    np.save(folder / "image.npy", images[3:4])
    return folder / "image.npy"


def test_outputs_are_those_of_a_session(program: Path, model: Path, tmp_path: Path) -> None:
    words = ["--device", REFERENCE, "--input", f"image={image(tmp_path)}", "--outputs", tmp_path]
    said, _ = run(program, model, *words, "--runs", 3)
    assert "nnapi-reference: compiled in " in said
    assert "then 3 runs: median " in said
    feeds = {"image": np.load(tmp_path / "image.npy")}
    (scores,) = python_session(model).run(None, feeds)
    written = np.load(tmp_path / "scores.npy")
    assert (written.dtype, written.shape) == (scores.dtype, scores.shape)
    assert written.tobytes() == scores.tobytes()


def test_devices_are_listed(program: Path) -> None:
    said, _ = run(program, "--devices")
    assert said.startswith("runtime: feature level 8\n")
    assert "\nnnapi-reference: CPU, version 1, feature level 8\n" in said


def test_every_device_in_turn(program: Path, model: Path) -> None:
    said, _ = run(program, model, "--device", "all", "--runs", 1)
    assert "nnapi-reference: first run" in said
    assert "host-cpu: first run" in said


NO_THREADS = """
#include <errno.h>
#include <pthread.h>
__attribute__((visibility("default")))
int pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*work)(void *), void *given) {
  (void)thread, (void)a, (void)work, (void)given;
  return EAGAIN;
}
"""


def test_a_trial_that_cannot_begin_is_not_held_against_the_library(build, program, model, tmp_path):
    """It leaves no note: the next start tries it."""
    source = tmp_path / "no_threads.c"
    source.write_text(NO_THREADS)
    preloaded = {"LD_PRELOAD": str(build.compiled("libno_threads.so", source, "-shared"))}
    words = [program, model, "--runtime", build.stand_in, "--cache-dir", tmp_path]
    done = ran(*words, status=3, timeout=100, env=os.environ | preloaded)
    assert done.stderr == "nnapi_run: runtime: no thread can be started for a trial\n"
    assert not [*tmp_path.glob("*.trying")]
    ran(*words, timeout=100)


def wrong_shape(folder: Path) -> str:
    np.save(folder / "wrong.npy", np.zeros((1, 8, 8), np.float32))
    return f"image={folder / 'wrong.npy'}"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--device", "npu0"], 3, "device 'npu0' is unknown"),
        (["--runs", "0"], 2, "--runs is '0'; it must be 1 to 1000000"),
        (["--speed", "1"], 2, "option 'speed' is unknown"),
        (["--input", "image"], 2, "--input is 'image'; NAME=FILE.npy is meant"),
        (["--input", "x=a.npy"], 2, "the model has no input 'x'"),
        (["--input", "image=/nowhere.npy"], 2, "/nowhere.npy: No such file or directory"),
        (["--outputs", "/nowhere"], 2, "/nowhere/scores.npy: No such file or directory"),
    ],
)
def test_what_cannot_be_is_said(words, status, says, program, model):
    _, said = run(program, model, *words, status=status)
    assert said.startswith("nnapi_run: ")
    assert says in said
    assert said.count("\n") == 1


def test_inputs_of_another_shape_are_refused(program: Path, model: Path, tmp_path: Path) -> None:
    _, said = run(program, model, "--input", wrong_shape(tmp_path), status=2)
    assert "'shape': (1, 8, 8)" in said
    assert "where the model takes '<f4' of shape (1, 1, 8, 8) in C order" in said


def saved(cluster: Lowered, folder: Path) -> Path:
    path = folder / "model_ctx.onnx"
    onnx.save(forged(cluster), path)
    return path


def twice() -> Lowered:
    """y = x + x^T: one input that enters in two layouts."""
    tensor = Operand(OperandCode.TENSOR_FLOAT32, (3, 3))
    model = one(ADD, [tensor, tensor, 0], [tensor])
    ends = [(n, i, perm) for n, i, perm in (("x", 0, None), ("x", 1, (1, 0)), ("y", 0, None))]
    crossings = [
        Crossing(name, DType.FLOAT, (3, 3), i, perm, (3, 3), np.dtype(np.float32))
        for name, i, perm in ends
    ]
    return Lowered(model, Border(tuple(crossings[:2]), tuple(crossings[2:])))


def test_an_input_in_two_layouts_is_one(program: Path, tmp_path: Path) -> None:
    """Here, in both providers, and for `bundle`, which lists it once."""
    model, x = saved(twice(), tmp_path), np.arange(9, dtype=np.float32).reshape(3, 3)
    np.save(tmp_path / "x.npy", x)
    words = ["--device", REFERENCE, "--runs", 1, "--outputs", tmp_path]
    run(program, model, "--input", f"x={tmp_path / 'x.npy'}", *words)
    assert np.array_equal(np.load(tmp_path / "y.npy"), x + x.T)
    for make in (session, python_session):
        assert np.array_equal(make(model).run(None, {"x": x})[0], x + x.T)
    inputs = read_prepared_model(model).inputs
    assert inputs is not None
    assert [spec.name for spec in inputs] == ["x"]


NAMES = ("y/1", "y:1", "y_1", "y%3A1", ".y", "_y", "Z\u00fcrich", "a b~-.c")


def test_files_of_outputs_cannot_collide(program: Path, tmp_path: Path) -> None:
    """Their names are the tensors', percent-encoded, here as in Python."""
    model = saved(addition(*map(crossing, NAMES)), tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    run(program, model, "--runs", 1, "--outputs", out)
    written = {path.name for path in out.iterdir()}
    assert written == {f"{file_name_of(name)}.npy" for name in NAMES}
    assert {unquote(name).removesuffix(".npy") for name in written} == set(NAMES)


def test_an_output_is_written_whole_or_not_at_all(program: Path, model: Path, tmp_path: Path):
    (tmp_path / "scores.npy").mkdir()
    _, said = run(program, model, "--runs", 1, "--outputs", tmp_path, status=2)
    assert "scores.npy: Is a directory" in said
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npy"]


def test_what_was_said_stays_when_a_driver_ends_the_process(program, build, model):
    command = [program, model, "--device", "all", "--runs", "1", "--runtime", build.stand_in]
    env = {**os.environ, "STAND_IN_ABORTS": REFERENCE}
    done = ran(*command, status=-signal.SIGABRT, timeout=100, env=env)
    assert "stand-in: first run" in done.stdout


@pytest.mark.parametrize("level", [1, 3])
def test_tensors_are_aligned(level: int, program: Path, build: Build, tmp_path: Path) -> None:
    """To 64 bytes, those that are converted too: the last bits may depend on it."""
    digits = prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path, feature_level=level)
    command = [program, digits, "--runs", "1", "--runtime", build.stand_in, "--fallback", "none"]
    subprocess.run(command, check=True, timeout=100, env={**os.environ, "STAND_IN_ALIGNED": "1"})


def test_a_pipe_is_no_model(program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    _, said = run(program, tmp_path / "pipe", status=2)
    assert "it is no ONNX model" in said


@pytest.mark.parametrize(
    "odd", ["\x1b[2J", "\x85", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff"]
)
def test_messages_have_nothing_that_a_terminal_acts_on(odd: str, program: Path) -> None:
    _, said = run(program, "--devices", "--runs", f"Z\u00fcrich{odd}\U0001f600", status=2)
    assert "'Z\u00fcrich?" in said
    assert "\U0001f600'" in said
    assert odd not in said
    raw = os.fsdecode(b"\xff\xc3")
    assert "'??'" in run(program, "--devices", "--runs", raw, status=2)[1]


def test_other_models_are_refused(program: Path, tmp_path: Path) -> None:
    _, said = run(program, ROOT / "models" / "digits.onnx", status=2)
    assert "the model is not one cluster (" in said
    (tmp_path / "text.onnx").write_text("no model at all")
    _, said = run(program, tmp_path / "text.onnx", status=2)
    assert "it is no ONNX model, or has no nodes" in said


def test_on_arm64_under_emulation(program: Path, build: Build, model: Path, tmp_path: Path) -> None:
    """Reader, client and program compute there what they do here, on the stand-in library."""
    if ARM64 is None or EMULATOR is None:
        pytest.skip("needs aarch64-linux-gnu-gcc and qemu-aarch64")
    (tmp_path / "arm").mkdir()
    arm = Build(tmp_path / "arm", ARM64)
    emulated = [EMULATOR, "-L", "/usr/aarch64-linux-gnu", arm.program("nnapi_run")]
    words = [model, "--input", f"image={image(tmp_path)}", "--runs", "1", "--outputs"]
    for name, command, library in (
        ("here", [program], build.stand_in),
        ("there", emulated, arm.stand_in),
    ):
        (tmp_path / name).mkdir()
        said, _ = run(*command, *words, tmp_path / name, runtime=library)
        assert "stand-in: first run" in said
    here, there = (tmp_path / name / "scores.npy" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    assert os.path.getsize(here) == 128 + 40
