"""Build of `_native.abi3.so` (the Python callbacks) and `libneuralnetworks.so` (the C library).

The library is pure C and loads Python with dlopen at run time, so one build serves every CPython
version and non-Python programs can link it. The callbacks are a cffi module for the stable ABI.

setuptools executes this file by path: it must not import what the package depends on.
"""

from __future__ import annotations

import runpy
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import cffi
from setuptools import Extension

if TYPE_CHECKING:
    from ep_nnapi.nnapi.functions import Function

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_LIST = runpy.run_path(str(_HERE.parent / "functions.py"))
_FUNCTIONS = _LIST["FUNCTIONS"]
_EMBEDDING = runpy.run_path(str(_HERE.parent / "_embedding.py"))
_SHIM = _HERE / "shim" / "connect.c"
_INPUTS = (_HERE / "_build.py", _HERE.parent / "functions.py", _SHIM)

IDENTITY = zlib.crc32("\n".join(f.prototype for f in _FUNCTIONS).encode())
"""CRC-32 of the function list; the library rejects callbacks built from a different list."""

_OWN_C = """\
/* Through the kernel, which answers -1 for memory that is not there. */
static ssize_t read_own_memory(uintptr_t address, void *into, size_t size) {
    struct iovec to = { into, size }, from = { (void *)address, size };
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}

/* A program of C never ends its Python; a Python that has ended has called what it has to. */
static void before_exit(void);
static void at_exit(void) { if (Py_IsInitialized()) before_exit(); }

/* Has Python called when the process ends, before libraries that are loaded by now go down. */
static int watch_exit(void) { return atexit(at_exit); }
"""
"""Functions of C that the Python side calls."""

_OP_FAILED = 5
_PARAMETER = "{0.adapter_type} {0.name}"


def _callback(function: Function) -> str:
    """Returns the C prototype of the Python callback of a function."""
    parameters = ", ".join(_PARAMETER.format(p) for p in function.parameters) or "void"
    return f"{function.returns} {function.python_name}({parameters})"


def _around(function: Function) -> str:
    """Returns the C wrapper that calls the Python callback, then handles a pending interrupt."""
    parameters = ", ".join(_PARAMETER.format(p) for p in function.parameters) or "void"
    name, returns = function.python_name, function.returns
    call = f"{name}({', '.join(p.name for p in function.parameters)});"
    body = f"{call} pass_on_interrupt();"
    if returns != "void":
        body = f"{returns} result = {call} pass_on_interrupt(); return result;"
    return f"static {returns} around_{name}({parameters}) {{ {body} }}\n"


def _callbacks() -> cffi.FFI:
    declarations = [_callback(f) for f in _FUNCTIONS]
    builder = cffi.FFI()
    builder.cdef(_LIST["STRUCTS"])
    builder.cdef("uintptr_t table(void); void interrupt_later(void); int watch_exit(void);")
    builder.cdef("ssize_t read_own_memory(uintptr_t address, void *into, size_t size);")
    builder.cdef('extern "Python" {\n' + "".join(f"{d};\n" for d in declarations) + "}")
    builder.cdef('extern "Python" void before_exit(void);')
    statics = "".join(f"static {d};\n" for d in declarations)
    around = "".join(_around(f) for f in _FUNCTIONS)
    entries = ",\n    ".join(f"(void (*)(void))around_{f.python_name}" for f in _FUNCTIONS)
    builder.set_source(
        "ep_nnapi.nnapi.capi._native",
        f"""
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include "interrupts.h"
{_LIST["STRUCTS"]}
{statics}
{around}
static struct {{ uint32_t identity; void (*functions[{len(_FUNCTIONS)}])(void); }} nn_table = {{
    {IDENTITY}u, {{ {entries} }}
}};
static uintptr_t table(void) {{ return (uintptr_t)&nn_table; }}

{_OWN_C}""",
        sources=["ep_nnapi/nnapi/interrupts.c"],
        depends=["ep_nnapi/nnapi/interrupts.h"],
        include_dirs=["ep_nnapi/nnapi"],
        extra_compile_args=["-O2", "-fvisibility=hidden"],
    )
    return builder


def _trampoline(index: int, function: Function) -> str:
    """Returns the C source of one exported function; it forwards to the callback at `index`."""
    types = ", ".join(p.adapter_type for p in function.parameters) or "void"
    arguments = ", ".join(f"({p.adapter_type}){p.name}" for p in function.parameters)
    call = f"(({function.returns} (*)({types}))t->functions[{index}])({arguments})"
    failure = {"void": "", "int": f" return {_OP_FAILED};"}.get(function.returns, " return 0;")
    result = call if function.returns == "void" else f"return {call}"
    return (
        f"NN_EXPORT {function.prototype} {{\n"
        f"    const nn_table *t = nn_connect();\n"
        f"    if (t == NULL) {{{failure or ' return;'} }}\n"
        f"    {result};\n}}\n"
    )


def _library_source() -> str:
    objects = "".join(
        f"typedef struct {_LIST['PREFIX']}{o} {_LIST['PREFIX']}{o};\n" for o in _LIST["OBJECTS"]
    )
    functions = "\n".join(_trampoline(i, f) for i, f in enumerate(_FUNCTIONS))
    fixed = _SHIM.read_text(encoding="utf-8")
    return "\n".join(
        [
            fixed,
            f"typedef {_LIST['OPERATION_TYPE']} {_LIST['PREFIX']}OperationType;",
            "typedef struct AHardwareBuffer AHardwareBuffer;",
            objects + _LIST["STRUCTS"],
            functions,
        ]
    )


def library() -> Extension:
    """Returns the extension for `libneuralnetworks.so`, after generating its C source."""
    extension: Extension = _EMBEDDING["library"](
        "ep_nnapi.nnapi.capi.libneuralnetworks",
        "ep_nnapi.nnapi.capi.entry",
        IDENTITY,
        len(_FUNCTIONS),
        _library_source(),
        _INPUTS,
    )
    return extension


def write_headers() -> None:
    """Writes the C headers into `include`, where compilers find them."""
    sys.path.insert(0, str(_ROOT))
    try:
        runpy.run_path(str(_HERE / "header.py"))["write_header"](_HERE / "include")
    finally:
        sys.path.pop(0)


ffi = _callbacks()
