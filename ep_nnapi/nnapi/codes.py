"""NNAPI's enumerations with their NDK names (NeuralNetworksTypes.h), and failures by code."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ep_nnapi.nnapi.errors import RuntimeFailure

if TYPE_CHECKING:
    import numpy as np


class OperandCode(IntEnum):
    """Operand types (OperandCode), each with the name of its element type in numpy."""

    FLOAT32 = 0, "float32"
    INT32 = 1, "int32"
    UINT32 = 2, "uint32"
    TENSOR_FLOAT32 = 3, "float32"
    TENSOR_INT32 = 4, "int32"
    TENSOR_QUANT8_ASYMM = 5, "uint8"
    BOOL = 6, "bool"
    TENSOR_QUANT16_SYMM = 7, "int16"
    TENSOR_FLOAT16 = 8, "float16"
    TENSOR_BOOL8 = 9, "bool"
    FLOAT16 = 10, "float16"
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11, "int8"
    TENSOR_QUANT16_ASYMM = 12, "uint16"
    TENSOR_QUANT8_SYMM = 13, "int8"
    TENSOR_QUANT8_ASYMM_SIGNED = 14, "int8"
    MODEL = 15

    tensor: bool
    quantized: bool

    _element: str

    def __new__(cls, code: int, element: str = "") -> OperandCode:
        """Keep the element type."""
        made = int.__new__(cls, code)
        made._value_, made._element = code, element
        return made

    def __init__(self, *_: object) -> None:
        """Set `tensor`, True for tensors, and `quantized`, True if elements have a scale."""
        self.tensor = self.name.startswith("TENSOR_")
        self.quantized = "QUANT" in self.name

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype of one element; raises KeyError for MODEL."""
        import numpy as np  # the build, which lacks it, reads the codes too

        if not self._element:
            raise KeyError(self)
        return np.dtype(self._element)

    @cached_property
    def level(self) -> int:
        """The feature level that introduced the type."""
        if self in (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.MODEL):
            return 4
        return 1 if self <= OperandCode.TENSOR_QUANT8_ASYMM else 3


class ResultCode(IntEnum):
    """Status returned by every NNAPI call (ResultCode)."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    BAD_STATE = 6
    UNMAPPABLE = 7
    OUTPUT_INSUFFICIENT_SIZE = 8
    UNAVAILABLE_DEVICE = 9
    MISSED_DEADLINE_TRANSIENT = 10
    MISSED_DEADLINE_PERSISTENT = 11
    RESOURCE_EXHAUSTED_TRANSIENT = 12
    RESOURCE_EXHAUSTED_PERSISTENT = 13
    DEAD_OBJECT = 14


class FuseCode(IntEnum):
    """Fused activations: an operation's epilogue activation (FuseCode)."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingCode(IntEnum):
    """Implicit padding schemes (PaddingCode)."""

    SAME = 1
    VALID = 2


class PreferenceCode(IntEnum):
    """Execution preferences of a compilation (PreferenceCode)."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class PriorityCode(IntEnum):
    """Execution priority of a compilation relative to others (PriorityCode)."""

    LOW = 90
    MEDIUM = 100
    HIGH = 110


class DeviceCode(IntEnum):
    """Kinds of devices (DeviceTypeCode)."""

    UNKNOWN = 0
    OTHER = 1
    CPU = 2
    GPU = 3
    ACCELERATOR = 4


class DurationCode(IntEnum):
    """Kinds of duration of an execution (DurationCode)."""

    DURATION_ON_HARDWARE = 0
    DURATION_IN_DRIVER = 1
    FENCED_DURATION_ON_HARDWARE = 2
    FENCED_DURATION_IN_DRIVER = 3


COPIED_AT_ONCE = 128
"""Largest constant that setOperandValue copies, in bytes; the client keeps larger ones in memory.

Source: NDK ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES.
"""

TOKEN_BYTES = 32
"""Bytes of a cache token. Source: NDK ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN."""


HIGHEST_LEVEL = 8
"""The highest NNAPI feature level."""


def feature_level_code(level: int) -> int:
    """The value that ANeuralNetworksDevice_getFeatureLevel returns for `level`, 1 to 8."""
    return level + 26 if level <= 5 else 1_000_000 + level


def feature_level_of_code(code: int) -> int:
    """The feature level, 1 to 8, for a value of ANeuralNetworksDevice_getFeatureLevel.

    0 for codes below Android 8.1's. Codes up to 1,000,000 are Android API levels, and those above
    31 brought nothing before level 6; levels above 8 are not known here and count as 8.
    """
    level = code - 1_000_000 if code > 1_000_000 else min(code - 26, 5)
    return min(max(level, 0), HIGHEST_LEVEL)


PREFIX = "ANEURALNETWORKS_"
"""Names of the NDK's result codes begin with this."""

COMPUTE, FINISH = "ANeuralNetworksExecution_compute", "ANeuralNetworksCompilation_finish"
"""The calls that failures of an execution and of a compilation name."""


def failure(call: str, code: ResultCode, detail: str = "") -> RuntimeFailure:
    """The failure for NDK function `call` returning result code `code`."""
    return RuntimeFailure(call, PREFIX + code.name, detail)


def result_code(failed: RuntimeFailure) -> ResultCode:
    """The result code of a failure; OP_FAILED for a code that NNAPI does not define."""
    found = ResultCode.__members__.get(failed.code.removeprefix(PREFIX))
    return found or ResultCode.OP_FAILED
