"""The C header of the library, written from the same tables that the library is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path

from ep_nnapi.nnapi.capi.builder import COPIED_AT_ONCE
from ep_nnapi.nnapi.capi.calls.compilation import TOKEN_BYTES
from ep_nnapi.nnapi.capi.functions import FUNCTIONS, OBJECTS, OPERATION_TYPE, PREFIX, STRUCTS
from ep_nnapi.nnapi.capi.timing import DurationCode
from ep_nnapi.nnapi.codes import (
    DeviceCode,
    FuseCode,
    OperandCode,
    PaddingCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
    feature_level_code,
)
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


def write_header(directory: str | Path) -> Path:
    """Writes `android/NeuralNetworks.h` below `directory`, which is then an include path."""
    path = Path(directory, "android", "NeuralNetworks.h")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header(), encoding="utf-8")
    return path


def header() -> str:
    """The header's text, for C and C++."""
    objects = (f"typedef struct {PREFIX}{o} {PREFIX}{o};" for o in OBJECTS)
    return "\n".join(
        [
            "/* NNAPI's C API, as libneuralnetworks.so of ep-nnapi exports it. Generated. */",
            "#ifndef EP_NNAPI_NEURAL_NETWORKS_H",
            "#define EP_NNAPI_NEURAL_NETWORKS_H",
            *(f"#include <{name}.h>" for name in ("stdbool", "stddef", "stdint")),
            '#ifdef __cplusplus\nextern "C" {\n#endif',
            *_enums(),
            *objects,
            "typedef struct AHardwareBuffer AHardwareBuffer;",
            f"typedef {OPERATION_TYPE} {PREFIX}OperationType;",
            STRUCTS,
            *(f"/* feature level {f.level} */\n{f.prototype};" for f in FUNCTIONS),
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
