"""Build of `_native.abi3.so`: the client of libLiteRt.so in native/, for Python.

setuptools executes this file by path: it must not import the package.
"""

import re
from pathlib import Path

import cffi

_NATIVE = Path(__file__).resolve().parents[2] / "native"
_SOURCES = ("error", "joined", "litert", "litert_model")
_ERROR = "typedef struct { char text[512]; int code; } ctx_error;\n"

_OWN = "uintptr_t runner(void);\n"
"""The address of a function for C code of another module: `DirectRunner` in ort/native.h."""

_OWN_C = """\
#include "litert.h"
/* What failed is said when Python runs it again. */
static int run_model(void *model, const void *const *inputs, void *const *outputs) {
  ctx_error error;
  return ctx_litert_run(model, inputs, outputs, &error);
}
static uintptr_t runner(void) { return (uintptr_t)&run_model; }
"""


def _ffi() -> cffi.FFI:
    headers = [(_NATIVE / name).read_text(encoding="utf-8") for name in ("joined.h", "litert.h")]
    builder = cffi.FFI()
    builder.cdef(_ERROR + re.sub(r"^#.*", "", "".join(headers), flags=re.MULTILINE) + _OWN)
    builder.set_source(
        "ep_nnapi.litert._native",
        _OWN_C,
        sources=[f"native/{name}.c" for name in _SOURCES],
        depends=[f"native/{path.name}" for path in _NATIVE.glob("*.h")],
        include_dirs=["native"],
        define_macros=[("_GNU_SOURCE", None), ("_FILE_OFFSET_BITS", "64")],
        extra_compile_args=["-O2", "-fvisibility=hidden"],
        extra_link_args=["-ldl", "-pthread"],
    )
    return builder


ffi = _ffi()
