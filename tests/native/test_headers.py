"""Headers of C: the one that has the facts of the tables in Python, and ONNX Runtime's tables.

`python -m tests.native.test_headers` writes the former anew.
"""

import re

from ep_nnapi.nnapi.codes import (
    COPIED_AT_ONCE,
    DeviceCode,
    DurationCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from ep_nnapi.nnapi.functions import FUNCTIONS, OBJECTS, OPERATION_TYPE, PREFIX, STRUCTS
from ep_nnapi.nnapi.library.binding import NEEDED
from tests.native.build import NATIVE
from tests.native.ort_program import tables

HEADER = NATIVE / "nnapi_functions.h"


def nnapi_functions() -> str:
    """Every function of NNAPI's C API, as a list for macros, and its structs and codes."""
    levels = {name: level for level, names in NEEDED.items() for name in names}
    lines = [
        "/* NNAPI's C API. Generated from ep_nnapi/nnapi: python -m tests.native.test_headers. */",
        "#ifndef NNAPI_FUNCTIONS_H\n#define NNAPI_FUNCTIONS_H\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        *(f"typedef struct {PREFIX}{name} {PREFIX}{name};" for name in OBJECTS),
        "typedef struct AHardwareBuffer AHardwareBuffer;",
        f"typedef {OPERATION_TYPE} {PREFIX}OperationType;",
        STRUCTS,
    ]
    for kinds in (ResultCode, DeviceCode, DurationCode, PreferenceCode, PriorityCode):
        codes = ", ".join(f"NN_{_short(kinds.__name__)}{c.name} = {c.value}" for c in kinds)
        lines.append(f"enum {{ {codes} }};")
    lines.append(f"enum {{ NN_COPIED_AT_ONCE = {COPIED_AT_ONCE} }};")
    lines.append("\n/* X(code) for the name of each result code. */\n#define NN_RESULTS(X) \\")
    lines.append(" \\\n".join(f"  X({code.name})" for code in ResultCode))
    lines.append(
        "\n/* X(returns, name, exported name, level, parameters); level: the first that no\n"
        " * library has without the function, or 9. */\n#define NN_FUNCTIONS(X) \\"
    )
    lines.append(
        " \\\n".join(
            f"  X({f.returns}, {f.python_name}, {f.c_name}, {levels.get(f.python_name, 9)}, "
            f"({', '.join(p.public for p in f.parameters) or 'void'}))"
            for f in FUNCTIONS
        )
    )
    return "\n".join(lines) + "\n\n#endif\n"


def _short(name: str) -> str:
    return "" if name in ("ResultCode", "DurationCode") else name.removesuffix("Code").upper() + "_"


def test_the_generated_header_is_current() -> None:
    assert HEADER.read_text(encoding="utf-8") == nnapi_functions()


def test_unused_slots_are_counted_right() -> None:
    """Each says the number of its first slot."""
    for name, slots in tables().items():
        for slot, member in slots.items():
            said = re.match(r"void \*unused(\d+)", member)
            assert said is None or int(said[1]) == slot, (name, member)


if __name__ == "__main__":
    HEADER.write_text(nnapi_functions(), encoding="utf-8")
