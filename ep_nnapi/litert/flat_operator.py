"""Operators of LiteRT as they are used: tensors, options, and the version that they need.

An operator has the lowest version that has the types and options in use: a runtime refuses an
operator of a higher version than it knows, so a lower one serves older runtimes too.
Source: TensorFlow Lite, tools/versioning/op_version.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

OptionValue: TypeAlias = int | float | bool | Sequence[int]


_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimum"),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2D"),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY"), "Reducer"),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), "Reducer"),
    "L2_NORMALIZATION": "L2Norm",
    "CAST": "NONE",  # its types are those of the tensors
}
"""Tables of options that have another name than their operators."""


def options_of(operator: str, tables: Iterable[str]) -> str | None:
    """Name of the table of an operator's options; None if it has none.

    tables   their names in the schema, of which those of operators differ in capitals
    """
    wanted = f"{_OPTIONS.get(operator, operator.replace('_', ''))}Options".lower()
    return next((name for name in tables if name.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Quantization parameters of a tensor: one scale, or one for each index along `axis`."""

    scales: tuple[float, ...]
    zero_point: int = 0
    axis: int = 0


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """Element type, shape and quantization of a tensor."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parameters: Parameters | None = None


_INT8_IS_1 = frozenset(
    ["HARD_SWISH", "PRELU", "QUANTIZE", "RELU_N1_TO_1", "RESHAPE", "SELECT_V2", "SHAPE", "WHILE"]
)
"""Operators whose version 1 has int8 tensors; of others, version 2 is the first with them."""


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator as it is used.

    tensors   inputs that are given, then outputs
    inputs    number of inputs
    options   fields of its options that are given
    """

    operator: str
    tensors: Sequence[FlatTensor]
    inputs: int
    options: Mapping[str, OptionValue]

    def holds(self, dtype: type[np.generic], tensor: int = 0) -> bool:
        """True if a tensor has that type."""
        return self.tensors[tensor].dtype == dtype

    def rank(self) -> int:
        """Rank of the first input."""
        return len(self.tensors[0].shape)


def version(used: Signature) -> int:
    """The version of the operator."""
    if used.operator in _RULES:
        return _RULES[used.operator](used)
    return _common(used)


def _common(used: Signature) -> int:
    at = 1 if used.operator == "SPLIT" else 0  # whose first input is the axis
    return 2 if used.operator not in _INT8_IS_1 and used.holds(np.int8, at) else 1


def _first(*rules: tuple[Callable[[Signature], bool], int]) -> Callable[[Signature], int]:
    """The version of the first rule that applies, else that of the type."""

    def found(used: Signature) -> int:
        return next((number for applies, number in rules if applies(used)), _common(used))

    return found


def _of(dtype: type[np.generic]) -> Callable[[Signature], bool]:
    return lambda used: used.holds(dtype)


_int8, _bool, _int32 = map(_of, (np.int8, np.bool_, np.int32))


def _byte(used: Signature) -> bool:
    return used.holds(np.int8) or used.holds(np.uint8)


def _dilated(used: Signature) -> bool:
    return (used.options["dilationWFactor"], used.options["dilationHFactor"]) != (1, 1)


def _grouped(used: Signature) -> bool:
    return used.tensors[0].shape[3] != used.tensors[1].shape[3]


def _above(rank: int) -> Callable[[Signature], bool]:
    return lambda used: used.rank() > rank


def _of_channels(used: Signature) -> bool:
    given = used.tensors[0].parameters
    return given is not None and len(given.scales) > 1


def _amplifies(used: Signature) -> bool:
    scales = [t.parameters.scales[0] for t in used.tensors if t.parameters]
    return len(scales) == 3 and prod(scales[:2]) / scales[2] >= 1.0


def _option(*names: str) -> Callable[[Signature], bool]:
    return lambda used: any(bool(used.options.get(name)) for name in names)


def _converts(dtype: type[np.generic]) -> Callable[[Signature], bool]:
    return lambda used: used.holds(dtype) or used.holds(dtype, -1)


_RULES: Mapping[str, Callable[[Signature], int]] = {
    "ABS": _first((_int32, 5), (_byte, 2)),
    "CAST": _first((_converts(np.float64), 5), (_converts(np.float16), 5), (_converts(np.int8), 3)),
    "CONV_2D": _first((_grouped, 6), (_int8, 3)),
    "DEPTHWISE_CONV_2D": _first((_int8, 3), (_dilated, 2)),
    "DEQUANTIZE": _first((_of_channels, 5), (_converts(np.float16), 3)),
    "FULLY_CONNECTED": _first((_int8, 4)),
    "GATHER": _first((_bool, 3)),
    "MUL": _first((_amplifies, 3)),
    "PAD": _first((_above(4), 4)),
    "RELU": _first((_byte, 2)),
    "RESIZE_BILINEAR": _first((_option("halfPixelCenters"), 3)),
    "RESIZE_NEAREST_NEIGHBOR": _first((_option("halfPixelCenters", "alignCorners"), 3)),
    "REVERSE_V2": _first((_int8, 3), (_bool, 2)),
    "SLICE": _first((_above(4), 5)),
    "SPLIT": _first((lambda used: used.holds(np.int32, 1), 3)),
    "STRIDED_SLICE": _first((_above(4), 4), (_bool, 3)),
    "TILE": _first((_int8, 3)),
    "TRANSPOSE": _first((_above(4), 4), (_bool, 3)),
    "TRANSPOSE_CONV": _first((_option("fusedActivationFunction"), 4), (lambda used: True, 3)),
}
"""Operators whose version has other reasons too."""
