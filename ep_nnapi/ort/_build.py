"""Builds ORT's plugin library and `ep_nnapi/ort/_native.abi3.so`, the cffi module behind it.

The plugin library (library.c) has no Python symbol, so that any program can load it. Its two
exports find Python and call the functions of the same names in `_native`.

ONNX Runtime's tables are in native/ort_api.h. No ONNX Runtime header is needed.

setuptools executes this file by path: it must not import the package.
"""

import re
import runpy
import zlib
from pathlib import Path

import cffi
from setuptools import Extension

_HERE = Path(__file__).resolve().parent
_EMBEDDING = runpy.run_path(str(_HERE.parent / "nnapi" / "_embedding.py"))
_LIBRARY = _HERE / "library.c"

_FOLDERS = ("ep_nnapi/ort", "ep_nnapi/nnapi", "native")
"""Where the headers are."""

_EXPORTS = ("CreateEpFactories", "ReleaseEpFactory")

IDENTITY = zlib.crc32(" ".join(_EXPORTS).encode())
"""CRC-32 of the functions that the plugin library calls in `_native`."""


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


def _declarations(header: Path) -> str:
    return re.sub(r"^#.*", "", header.read_text(encoding="utf-8"), flags=re.MULTILINE)


def _ffi() -> cffi.FFI:
    builder = cffi.FFI()
    builder.cdef(_declarations(_HERE.parents[1] / "native" / "ort_api.h"))
    builder.cdef(_declarations(_HERE / "native.h"))
    builder.cdef('extern "Python+C" {\n' + _declarations(_HERE / "callbacks.h") + "}")
    builder.set_source(
        "ep_nnapi.ort._native",
        '#include "callbacks.h"\n#include "interrupts.h"',
        sources=[
            *sorted(f"ep_nnapi/ort/{path.name}" for path in _HERE.glob("*.c") if path != _LIBRARY),
            "ep_nnapi/nnapi/interrupts.c",
        ],
        depends=[header.as_posix() for folder in _FOLDERS for header in Path(folder).glob("*.h")],
        include_dirs=_FOLDERS,
        define_macros=[("IDENTITY", f"{IDENTITY}u")],
        extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden"],
        extra_link_args=["-pthread"],
    )
    return builder


ffi = _ffi()
