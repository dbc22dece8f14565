"""C programs with the libonnxruntime of the wheel, which comes without headers."""

import re
import subprocess
from pathlib import Path

import onnxruntime

from tests.native.build import COMPILER, NATIVE

API = (NATIVE / "ort_api.h").read_text(encoding="utf-8")
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


def tables() -> dict[str, dict[int, str]]:
    """The members of ONNX Runtime's tables by slot; those of unused ones by the first."""
    found: dict[str, dict[int, str]] = {}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)\};", API, re.MULTILINE | re.DOTALL):
        slot, slots = 0, found.setdefault(name, {})
        for member in body.replace("  uint32_t ort_version_supported;", "").split(";")[:-1]:
            slots[slot] = " ".join(member.split())
            unused = re.search(r"\[(\d+)\]$", member)
            slot += int(unused[1]) if unused else 1
    return found


def header() -> str:
    """As much of onnxruntime_c_api.h as the programs need."""
    called = {n: m for n, m in tables()["OrtApi"].items() if "unused" not in m} | SLOTS
    members, following = [], 0
    for slot, member in sorted(called.items()):
        members += [f"void *unused{following}[{slot - following}]"] * (slot > following) + [member]
        following = slot + 1
    return "\n".join(
        [
            "#include <stddef.h>",
            "#include <stdint.h>",
            "enum { ORT_LOGGING_LEVEL_WARNING = 2, OrtArenaAllocator = 1, OrtMemTypeDefault = 0 };",
            "typedef enum ONNXTensorElementDataType { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 } "
            "ONNXTensorElementDataType;",
            *re.findall(r"^typedef [^{}]*?;", API, re.MULTILINE),
            "struct OrtApi {\n" + "".join(f"  {member};\n" for member in members) + "};",
            f"struct OrtApiBase {{ {'; '.join(tables()['OrtApiBase'].values())}; }};",
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
