"""The C headers that are generated: they have the facts of the tables in Python.

`python -m tests.native.test_headers` writes them anew.
"""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from ep_nnapi.nnapi.codes import (
    COPIED_AT_ONCE,
    DeviceCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from ep_nnapi.nnapi.functions import FUNCTIONS, OBJECTS, OPERATION_TYPE, PREFIX, STRUCTS
from ep_nnapi.nnapi.library.binding import NEEDED

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
BUILD = ROOT / "ep_nnapi" / "ort" / "_build.py"


def nnapi_functions() -> str:
    """Every function of NNAPI's C API, as a list for macros, and its structs and codes."""
    lines = [
        "/* NNAPI's C API. Generated from ep_nnapi/nnapi: python -m tests.native.test_headers. */",
        "#ifndef NNAPI_FUNCTIONS_H\n#define NNAPI_FUNCTIONS_H\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        *(f"typedef struct {PREFIX}{name} {PREFIX}{name};" for name in OBJECTS),
        "typedef struct AHardwareBuffer AHardwareBuffer;",
        f"typedef {OPERATION_TYPE} {PREFIX}OperationType;",
        STRUCTS,
    ]
    for kinds in (ResultCode, DeviceCode, PreferenceCode, PriorityCode):
        codes = ", ".join(f"NN_{_short(kinds.__name__)}{c.name} = {c.value}" for c in kinds)
        lines.append(f"enum {{ {codes} }};")
    lines.append(f"enum {{ NN_COPIED_AT_ONCE = {COPIED_AT_ONCE} }};")
    lines.append("\n/* X(code) for the name of each result code. */\n#define NN_RESULTS(X) \\")
    lines.append(" \\\n".join(f"  X({code.name})" for code in ResultCode))
    lines.append(
        "\n/* X(level, name) for the functions without which a library has no such level. */"
    )
    needed = [(level, name) for level, names in NEEDED.items() for name in names]
    lines.append("#define NN_NEEDED(X) \\")
    lines.append(" \\\n".join(f"  X({level}, {name})" for level, name in needed))
    lines.append("\n/* X(returns, name, exported name, parameters). */\n#define NN_FUNCTIONS(X) \\")
    lines.append(
        " \\\n".join(
            f"  X({f.returns}, {f.python_name}, {f.c_name}, "
            f"({', '.join(p.public for p in f.parameters) or 'void'}))"
            for f in FUNCTIONS
        )
    )
    return "\n".join(lines) + "\n\n#endif\n"


def _short(name: str) -> str:
    return "" if name == "ResultCode" else name.removesuffix("Code").upper() + "_"


def ort_api() -> str:
    """ONNX Runtime's tables of functions."""
    return (
        "/* ONNX Runtime's tables of functions, by slot. Generated from ep_nnapi/ort/_slots.py:\n"
        " * python -m tests.native.test_headers writes this file. */\n"
        "#ifndef NNAPI_ORT_API_H\n#define NNAPI_ORT_API_H\n\n"
        "#include <stddef.h>\n#include <stdint.h>\n\n"
        f"{runpy.run_path(str(BUILD))['declarations']()}\n\n#endif\n"
    )


GENERATED: dict[str, Callable[[], str]] = {
    "nnapi_functions.h": nnapi_functions,
    "ort_api.h": ort_api,
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_header_is_current(name: str) -> None:
    assert (NATIVE / name).read_text(encoding="utf-8") == GENERATED[name]()


if __name__ == "__main__":
    for each, make in GENERATED.items():
        (NATIVE / each).write_text(make(), encoding="utf-8")
