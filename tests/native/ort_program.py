"""C programs with the libonnxruntime of the wheel, which comes without headers."""

import runpy
import subprocess
from pathlib import Path

import onnxruntime

from tests.native.build import COMPILER, ROOT

BUILD = runpy.run_path(str(ROOT / "ep_nnapi" / "ort" / "_build.py"))
TABLES = runpy.run_path(str(ROOT / "ep_nnapi" / "ort" / "_slots.py"))

# What the programs use beside the plugin's own functions.
SLOTS = {
    7: "OrtStatus *(*CreateSession)"
    "(const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **)",
    30: "OrtStatus *(*SessionGetInputCount)(const OrtSession *, size_t *)",
    31: "OrtStatus *(*SessionGetOutputCount)(const OrtSession *, size_t *)",
    33: "OrtStatus *(*SessionGetInputTypeInfo)(const OrtSession *, size_t, OrtTypeInfo **)",
    36: "OrtStatus *(*SessionGetInputName)(const OrtSession *, size_t, OrtAllocator *, char **)",
    37: "OrtStatus *(*SessionGetOutputName)(const OrtSession *, size_t, OrtAllocator *, char **)",
    48: "OrtStatus *(*CreateTensorAsOrtValue)"
    "(OrtAllocator *, const int64_t *, size_t, ONNXTensorElementDataType, OrtValue **)",
    49: "OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *, size_t, "
    "const int64_t *, size_t, ONNXTensorElementDataType, OrtValue **)",
    60: "OrtStatus *(*GetTensorElementType)"
    "(const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *)",
    69: "OrtStatus *(*CreateCpuMemoryInfo)(int, int, OrtMemoryInfo **)",
    94: "void (*ReleaseMemoryInfo)(OrtMemoryInfo *)",
    98: "void (*ReleaseTypeInfo)(OrtTypeInfo *)",
    301: "OrtStatus *(*RegisterExecutionProviderLibrary)(OrtEnv *, const char *, const char *)",
    303: "OrtStatus *(*GetEpDevices)(const OrtEnv *, const OrtEpDevice *const **, size_t *)",
    304: "OrtStatus *(*SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions *, OrtEnv *, "
    "const OrtEpDevice *const *, size_t, const char *const *, const char *const *, size_t)",
    312: "const char *(*EpDevice_EpName)(const OrtEpDevice *)",
}


def header() -> str:
    """As much of onnxruntime_c_api.h as the programs need."""
    names = [*TABLES["OPAQUE"], "OrtMemoryInfo"]
    return "\n".join(
        [
            "#include <stddef.h>",
            "#include <stdint.h>",
            "enum { ORT_LOGGING_LEVEL_WARNING = 2, OrtArenaAllocator = 1, OrtMemTypeDefault = 0 };",
            "typedef enum ONNXTensorElementDataType { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 } "
            "ONNXTensorElementDataType;",
            *(f"typedef struct {name} {name};" for name in names),
            BUILD["_table"]("OrtApi", TABLES["ORT_API"] | SLOTS),
            BUILD["_table"]("OrtApiBase", TABLES["ORT_API_BASE"]),
            "const OrtApiBase *OrtGetApiBase(void);",
        ]
    )


def linked(folder: Path, source: Path, *flags: str) -> Path:
    """A program of that C file, linked with libonnxruntime, in the folder."""
    (folder / "onnxruntime_c_api.h").write_text(header())
    capi = Path(onnxruntime.__file__).parent / "capi"
    (library,) = capi.glob("libonnxruntime.so*")
    (folder / "libonnxruntime.so").symlink_to(library)
    (folder / "libonnxruntime.so.1").symlink_to(library)  # its name for the dynamic linker
    program = folder / source.stem
    command = [COMPILER or "cc", *flags, "-Wall", "-Wextra", str(source), f"-I{folder}"]
    command += [f"-L{folder}", "-lonnxruntime", f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run(command, check=True)
    return program
