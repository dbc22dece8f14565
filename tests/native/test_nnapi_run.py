"""nnapi_run: devices, inputs and outputs in files, times; also for ARM64, under emulation."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.native.build import ARM64, COMPILER, EMULATOR, Build, needs_compiler
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session

ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_compiler


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Build(tmp_path_factory.mktemp("run"), COMPILER or "cc")


@pytest.fixture(scope="module")
def program(build: Build) -> Path:
    return build.program("nnapi_run")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path_factory.mktemp("model"))


def run(*words: object, status: int = 0, runtime: object = LIBRARY) -> tuple[str, str]:
    command = [*map(str, words), "--runtime", str(runtime)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
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
def test_what_cannot_be_is_said(
    words: list[str], status: int, says: str, program: Path, model: Path
) -> None:
    _, said = run(program, model, *words, status=status)
    assert said.startswith("nnapi_run: ")
    assert says in said
    assert said.count("\n") == 1


def test_inputs_of_another_shape_are_refused(program: Path, model: Path, tmp_path: Path) -> None:
    _, said = run(program, model, "--input", wrong_shape(tmp_path), status=2)
    assert "'shape': (1, 8, 8)" in said
    assert "where the model takes '<f4' of shape (1, 1, 8, 8) in C order" in said


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
