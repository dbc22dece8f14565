"""A C program with the wheel's libonnxruntime runs prepared models."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from models.quantized import quantized
from tests.native.build import ROOT, needs_compiler
from tests.native.ort_program import linked
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session

IMAGE = np.load(ROOT / "models" / "digits" / "samples.npz")["images"][4:5]
pytestmark = needs_compiler


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked(tmp_path_factory.mktemp("program"), ROOT / "examples" / "prepared_model.c")


def run(program: Path, model: Path, *words: str) -> list[str]:
    command = [str(program), ep_nnapi.context_library_path(), str(model), *words]
    done = subprocess.run(
        command, input=IMAGE.tobytes(), check=False, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("source", ["float", "u8s8"])
def test_a_c_program_computes_the_same_bits(source: str, program: Path, tmp_path: Path) -> None:
    digits = ROOT / "models" / "digits.onnx"
    made = onnx.load(digits) if source == "float" else quantized("digits", source)
    model = prepared(made, tmp_path)
    *scores, digit = run(program, model, LIBRARY, REFERENCE)
    (right,) = python_session(model).run(None, {"image": IMAGE})
    assert [float.fromhex(score) for score in scores] == right[0].tolist()
    assert digit == "this is a 4"


def test_the_plugin_by_its_bare_name_beside_onnx_runtime(program: Path, tmp_path: Path) -> None:
    """As in an APK; tests/cli/test_messages.py has it in the working directory."""
    name = Path(ep_nnapi.context_library_path()).name
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path)
    (program.parent / name).symlink_to(ep_nnapi.context_library_path())
    command = [str(program), name, str(model), LIBRARY, REFERENCE]
    done = subprocess.run(
        command, input=IMAGE.tobytes(), check=True, capture_output=True, timeout=300, cwd=tmp_path
    )
    assert done.stdout.decode().splitlines()[-1] == "this is a 4"


def test_without_options_the_library_beside_the_plugin_is_taken(program: Path, tmp_path: Path):
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path)
    assert run(program, model)[-1] == "this is a 4"
