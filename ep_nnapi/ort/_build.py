"""Builds ORT's plugin library and `ep_nnapi/ort/_native.abi3.so`, the cffi module behind it.

The plugin library (library.c) has no Python symbol, so that any program can load it. Its two
exports find Python and call the functions of the same names in `_native`.

Unused slots of ONNX Runtime's tables (_slots.py) are declared as padding pointers. No ONNX Runtime
header is needed.

setuptools executes this file by path: it must not import the package.
"""

import runpy
import zlib
from pathlib import Path

import cffi
from setuptools import Extension

_HERE = Path(__file__).resolve().parent
_EMBEDDING = runpy.run_path(str(_HERE.parent / "nnapi" / "_embedding.py"))
_LIBRARY = _HERE / "library.c"

_SLOTS = runpy.run_path(str(_HERE / "_slots.py"))

_CALLBACKS = (_HERE / "callbacks.h").read_text(encoding="utf-8")
"""Declarations of the callbacks in Python."""

_SOURCES = (
    *("native", "termination", "run_options", "inner_session", "direct_run", "selection"),
    *("profiler", "context_data", "callbacks"),
)
"""C files, each of which uses those before it."""

_EXPORTS = ("CreateEpFactories", "ReleaseEpFactory")

IDENTITY = zlib.crc32(" ".join(_EXPORTS).encode())
"""CRC-32 of the functions that the plugin library calls in `_native`."""


def _table(name: str, slots: dict[int, str], first: str = "") -> str:
    """Returns the C struct `name` with these members at these slots, after the member `first`."""
    lines = [first] if first else []
    following = 0
    for slot, member in sorted(slots.items()):
        if slot > following:
            lines.append(f"void *unused{following}[{slot - following}];")
        lines.append(f"{member};")
        following = slot + 1
    return f"struct {name} {{\n  " + "\n  ".join(lines) + "\n};\n"


def declarations() -> str:
    """Returns C declarations of ONNX Runtime's tables; native/ort_api.h has them too."""
    version = "uint32_t ort_version_supported;"
    return "\n".join(
        (
            *(f"typedef struct {name} {name};" for name in _SLOTS["OPAQUE"]),
            *_SLOTS["FUNCTION_TYPES"],
            _table("OrtApi", _SLOTS["ORT_API"]),
            _table("OrtEpApi", _SLOTS["ORT_EP_API"]),
            _table("OrtModelEditorApi", _SLOTS["MODEL_EDITOR_API"]),
            _table("OrtApiBase", _SLOTS["ORT_API_BASE"]),
            _table("OrtEpFactory", _SLOTS["FACTORY"], version),
            _table("OrtEp", _SLOTS["EP"], version),
            _table("OrtNodeComputeInfo", _SLOTS["COMPUTE"], version),
            f"struct OrtNodeFusionOptions {{ {version} _Bool drop_constant_initializers; }};",
        )
    )


def _source(header: str) -> str:
    return "\n".join(
        (
            "#include <stddef.h>",
            "#include <stdint.h>",
            "#include <stdio.h>",
            "#include <stdlib.h>",
            declarations(),
            f"#define IDENTITY {IDENTITY}u",
            header,
            *(f"static {callback};" for callback in _CALLBACKS.split(";")[:-1]),
            (_HERE.parent / "nnapi" / "interrupts.c").read_text(encoding="utf-8"),
            *((_HERE / f"{n}.c").read_text(encoding="utf-8") for n in _SOURCES),
        )
    )


def library() -> Extension:
    """Returns the extension for the plugin library, which ONNX Runtime loads."""
    extension: Extension = _EMBEDDING["library"](
        "ep_nnapi.ort.libonnxruntime_providers_nnapi",
        "ep_nnapi.ort.plugin",
        IDENTITY,
        len(_EXPORTS),
        _LIBRARY.read_text(encoding="utf-8"),
        (_HERE / "_build.py", _LIBRARY),
    )
    return extension


def _ffi() -> cffi.FFI:
    header = (_HERE / "native.h").read_text(encoding="utf-8")
    builder = cffi.FFI()
    builder.cdef(header)
    builder.cdef('extern "Python" {\n' + _CALLBACKS + "}")
    builder.set_source(
        "ep_nnapi.ort._native",
        _source(header),
        extra_compile_args=["-O2", "-fvisibility=hidden"],
    )
    return builder


ffi = _ffi()
