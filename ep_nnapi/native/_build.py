"""Build of `_native.abi3.so`: the C files in native/ that Python uses too.

setuptools executes this file by path: it must not import the package.
"""

import re
from pathlib import Path

import cffi

_NATIVE = Path(__file__).resolve().parents[2] / "native"
_SOURCES = "container error flow inflate joined litert litert_model on_signal sha256 trial"
_HEADERS = ("joined.h", "litert.h", "trial.h")
"""Headers whose declarations Python has as they are."""

_DECLARED = """\
typedef struct { char text[512]; int code; } ctx_error;
typedef struct { ...; } ctx_container;
bool ctx_read(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error);
bool ctx_unpack(const ctx_container *container, uint32_t alternative, uint8_t **data,
                ctx_container *out, ctx_error *error);
void free(void *memory);
uintptr_t runner(void);
"""
"""`runner`: the address of a function for C code of another module, a `DirectRunner`."""

_OWN_C = """\
#include <stdlib.h>
#include "container.h"
#include "litert.h"
#include "trial.h"
/* What failed is said when Python runs it again. */
static int run_model(void *model, const void *const *inputs, void *const *outputs) {
  ctx_error error;
  return ctx_litert_run(model, inputs, outputs, &error);
}
static uintptr_t runner(void) { return (uintptr_t)&run_model; }
"""


def _ffi() -> cffi.FFI:
    headers = "".join((_NATIVE / name).read_text(encoding="utf-8") for name in _HEADERS)
    builder = cffi.FFI()
    builder.cdef(_DECLARED + re.sub(r"^#.*", "", headers, flags=re.MULTILINE))
    builder.set_source(
        "ep_nnapi.native._native",
        _OWN_C,
        sources=[f"native/{name}.c" for name in _SOURCES.split()],
        depends=[f"native/{path.name}" for path in _NATIVE.glob("*.h")],
        include_dirs=["native"],
        define_macros=[("_GNU_SOURCE", None), ("_FILE_OFFSET_BITS", "64")],
        extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden"],
        extra_link_args=["-ldl", "-pthread"],
    )
    return builder


ffi = _ffi()
