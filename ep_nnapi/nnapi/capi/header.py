"""C headers of the library, generated from its own tables, and flags by which they are found."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path

from ep_nnapi.nnapi.codes import (
    COPIED_AT_ONCE,
    TOKEN_BYTES,
    DeviceCode,
    DurationCode,
    FuseCode,
    OperandCode,
    PaddingCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
    feature_level_code,
)
from ep_nnapi.nnapi.functions import FUNCTIONS, OBJECTS, OPERATION_TYPE, PREFIX, STRUCTS
from ep_nnapi.nnapi.spec import OPERATIONS

ENUMS: tuple[tuple[str, str, type[IntEnum]], ...] = (
    ("OperandCode", "", OperandCode),
    ("FuseCode", "FUSED_", FuseCode),
    ("PaddingCode", "PADDING_", PaddingCode),
    ("PreferenceCode", "PREFER_", PreferenceCode),
    ("DeviceTypeCode", "DEVICE_", DeviceCode),
    ("PriorityCode", "PRIORITY_", PriorityCode),
    ("DurationCode", "", DurationCode),
    ("ResultCode", "", ResultCode),
)
_LEVELS = range(1, 9)
_STANDARD = ("<stdbool.h>", "<stddef.h>", "<stdint.h>")


def write_header(directory: str | Path) -> Path:
    """Writes the headers below `directory`, an include path; returns android/NeuralNetworks.h."""
    folder = Path(directory, "android")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in headers().items():
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")
    return folder / "NeuralNetworks.h"


def headers() -> dict[str, str]:
    """Returns the two headers by name, for C and C++; the first includes the second, as Android's.

    The build, which has no numpy, writes them into `include`.
    """
    objects = (f"typedef struct {PREFIX}{o} {PREFIX}{o};" for o in OBJECTS)
    types = [
        *_enums(),
        *objects,
        "typedef struct AHardwareBuffer AHardwareBuffer;",
        f"typedef {OPERATION_TYPE} {PREFIX}OperationType;",
        STRUCTS.strip(),
    ]
    functions = [f"/* feature level {f.level} */\n{f.prototype};" for f in FUNCTIONS]
    return {
        "NeuralNetworks.h": _header(
            "functions", ["<android/NeuralNetworksTypes.h>", *_STANDARD], functions
        ),
        "NeuralNetworksTypes.h": _header("types", _STANDARD, types),
    }


def _header(part: str, includes: Iterable[str], declarations: Iterable[str]) -> str:
    guard = f"EP_NNAPI_NEURAL_NETWORKS_{part.upper()}_H"
    return "\n".join(
        [
            f"/* The {part} of NNAPI's C API, as libneuralnetworks.so of ep-nnapi has them."
            " Generated. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            *(f"#include {name}" for name in includes),
            '#ifdef __cplusplus\nextern "C" {\n#endif',
            *declarations,
            "#ifdef __cplusplus\n}\n#endif\n#endif\n",
        ]
    )


def _enums() -> Iterable[str]:
    for name, prefix, codes in ENUMS:
        yield _enum(name, {prefix + code.name: code.value for code in codes})
    yield _enum("OperationCode", {row.name: row.code for row in OPERATIONS})
    levels = {f"FEATURE_LEVEL_{n}": feature_level_code(n) for n in _LEVELS}
    yield _enum("FeatureLevelCode", levels)
    yield _enum(
        "",
        {
            "PRIORITY_DEFAULT": PriorityCode.MEDIUM,
            "MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES": COPIED_AT_ONCE,
            "BYTE_SIZE_OF_CACHE_TOKEN": TOKEN_BYTES,
        },
    )


def _enum(name: str, values: Mapping[str, int]) -> str:
    lines = "".join(f"    ANEURALNETWORKS_{key} = {value:d},\n" for key, value in values.items())
    return f"typedef enum {{\n{lines}}} {name};" if name else f"enum {{\n{lines}}};"


_FOLDER = Path(__file__).resolve().parent

PKG_CONFIG = _FOLDER / "pkgconfig"
"""Directory for PKG_CONFIG_PATH; the package is `neuralnetworks`."""
CMAKE = _FOLDER / "cmake"
"""Value for the CMake variable NeuralNetworks_DIR."""


def compiler_flags() -> str:
    """Returns the compiler flags for the include path, quoted for a shell."""
    return shlex.join([f"-I{_FOLDER / 'include'}"])


def linker_flags() -> str:
    """Returns the flags that link the library, with its present directory as the rpath."""
    return shlex.join([f"-L{_FOLDER}", "-lneuralnetworks", f"-Wl,-rpath,{_FOLDER}"])


def data() -> dict[str, str]:
    """Returns all of these as plain data for JSON."""
    return {
        "cflags": compiler_flags(),
        "libs": linker_flags(),
        "pkgconfigdir": str(PKG_CONFIG),
        "cmakedir": str(CMAKE),
    }
