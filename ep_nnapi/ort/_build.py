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

_TABLES = (_HERE.parents[1] / "native" / "ort_api.h").read_text(encoding="utf-8")
_CALLBACKS = (_HERE / "callbacks.h").read_text(encoding="utf-8")
"""Declarations of the callbacks in Python."""

_SOURCES = (
    *("native", "termination", "run_options", "inner_session", "size_program", "direct_run"),
    *("selection", "profiler", "callbacks"),
)
"""C files, each of which uses those before it."""

_EXPORTS = ("CreateEpFactories", "ReleaseEpFactory")

IDENTITY = zlib.crc32(" ".join(_EXPORTS).encode())
"""CRC-32 of the functions that the plugin library calls in `_native`."""


def _source(header: str) -> str:
    return "\n".join(
        (
            "#include <stdio.h>",
            "#include <stdlib.h>",
            _TABLES,
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
    builder.cdef(re.sub(r"^#.*", "", _TABLES, flags=re.MULTILINE))
    builder.cdef(header)
    builder.cdef('extern "Python" {\n' + _CALLBACKS + "}")
    builder.set_source(
        "ep_nnapi.ort._native",
        _source(header),
        extra_compile_args=["-O2", "-fvisibility=hidden"],
    )
    return builder


ffi = _ffi()
