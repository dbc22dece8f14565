"""Build of `_native.abi3.so`: parts of native/ for Python, such as the reader of containers.

setuptools executes this file by path: it must not import the package.
"""

from pathlib import Path

import cffi

_DECLARED = """
typedef struct { char text[512]; int code; } ctx_error;
typedef struct { ...; } ctx_container;
bool ctx_read(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error);
bool ctx_unpack(const ctx_container *container, uint32_t alternative, uint8_t **data,
                ctx_container *out, ctx_error *error);
void free(void *memory);
int ctx_remove_on_signal(const char *path);
void ctx_keep_on_signal(int handle);
"""

ffi = cffi.FFI()
ffi.cdef(_DECLARED)
ffi.set_source(
    "ep_nnapi.epcontext._native",
    '#include <stdlib.h>\n#include "container.h"\n#include "on_signal.h"',
    sources=[
        f"native/{name}.c"
        for name in ("container", "error", "flow", "inflate", "on_signal", "sha256")
    ],
    depends=[path.as_posix() for path in Path("native").glob("*.h")],
    include_dirs=["native"],
    define_macros=[("_GNU_SOURCE", None), ("_FILE_OFFSET_BITS", "64")],
    extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden"],
)
