"""A C program with the wheel's libonnxruntime runs prepared models."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from models.quantized import quantized
from tests.native.build import COMPILER, needs_compiler
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session

ROOT = Path(__file__).resolve().parents[2]
TABLES = runpy.run_path(str(ROOT / "ep_nnapi" / "ort" / "_build.py"))
IMAGE = np.load(ROOT / "models" / "digits" / "samples.npz")["images"][4:5]
pytestmark = needs_compiler

# What the example uses beside the plugin's own functions: ONNX Runtime's wheel has no headers.
SLOTS = {
    7: "OrtStatus *(*CreateSession)"
    "(const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **)",
    49: "OrtStatus *(*CreateTensorWithDataAsOrtValue)"
    "(const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, int, OrtValue **)",
    69: "OrtStatus *(*CreateCpuMemoryInfo)(int, int, OrtMemoryInfo **)",
    94: "void (*ReleaseMemoryInfo)(OrtMemoryInfo *)",
    95: "void (*ReleaseSession)(OrtSession *)",
    301: "OrtStatus *(*RegisterExecutionProviderLibrary)(OrtEnv *, const char *, const char *)",
    303: "OrtStatus *(*GetEpDevices)(const OrtEnv *, const OrtEpDevice *const **, size_t *)",
    304: "OrtStatus *(*SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions *, OrtEnv *, "
    "const OrtEpDevice *const *, size_t, const char *const *, const char *const *, size_t)",
    312: "const char *(*EpDevice_EpName)(const OrtEpDevice *)",
}


def header() -> str:
    """As much of onnxruntime_c_api.h as the example needs."""
    names = [*TABLES["_OPAQUE"], "OrtMemoryInfo"]
    return "\n".join(
        [
            "#include <stddef.h>",
            "#include <stdint.h>",
            "enum { ORT_LOGGING_LEVEL_WARNING = 2, OrtArenaAllocator = 1, OrtMemTypeDefault = 0 };",
            "enum { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 };",
            *(f"typedef struct {name} {name};" for name in names),
            TABLES["_table"]("OrtApi", TABLES["_ORT_API"] | SLOTS),
            TABLES["_table"]("OrtApiBase", TABLES["_ORT_API_BASE"]),
            "const OrtApiBase *OrtGetApiBase(void);",
        ]
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "onnxruntime_c_api.h").write_text(header())
    capi = Path(onnxruntime.__file__).parent / "capi"
    (library,) = capi.glob("libonnxruntime.so*")
    (folder / "libonnxruntime.so").symlink_to(library)
    (folder / "libonnxruntime.so.1").symlink_to(library)  # its name for the dynamic linker
    command = [COMPILER, "-Wall", "-Wextra", str(ROOT / "examples" / "prepared_model.c")]
    command += [f"-I{folder}", f"-L{folder}", "-lonnxruntime", f"-Wl,-rpath,{folder}"]
    command += ["-o", str(folder / "program")]
    subprocess.run(command, check=True)
    return folder / "program"


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


def test_without_options_the_library_beside_the_plugin_is_taken(
    program: Path, tmp_path: Path
) -> None:
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path)
    assert run(program, model)[-1] == "this is a 4"
