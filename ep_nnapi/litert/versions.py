"""Versions of LiteRT's builtin operators: the lowest one that has the types and options in use.

Source: TensorFlow Lite, tools/versioning/op_version.cc. A runtime refuses an operator of a higher
version than it knows, so a lower one serves older runtimes too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ep_nnapi.litert.flat_graph import Option, Tensor

_INT8_IS_2 = frozenset(
    [
        "ADD",
        "ARG_MAX",
        "ARG_MIN",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "BATCH_TO_SPACE_ND",
        "CONCATENATION",
        "DEPTH_TO_SPACE",
        "DEQUANTIZE",
        "EQUAL",
        "GATHER",
        "GREATER",
        "GREATER_EQUAL",
        "L2_NORMALIZATION",
        "LESS",
        "LESS_EQUAL",
        "LOGISTIC",
        "LOG_SOFTMAX",
        "MAXIMUM",
        "MAX_POOL_2D",
        "MEAN",
        "MINIMUM",
        "MIRROR_PAD",
        "MUL",
        "NOT_EQUAL",
        "PACK",
        "PAD",
        "PADV2",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "RELU6",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "SLICE",
        "SOFTMAX",
        "SPACE_TO_BATCH_ND",
        "SPACE_TO_DEPTH",
        "SPLIT",
        "STRIDED_SLICE",
        "SUB",
        "SUM",
        "TANH",
        "TRANSPOSE",
    ]
)
"""Operators of which version 2 is the first with int8 tensors, and version 1 with others."""


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator as it is used.

    tensors   inputs that are given, then outputs
    inputs    number of inputs
    options   fields of its options that are given
    """

    operator: str
    tensors: Sequence[Tensor]
    inputs: int
    options: Mapping[str, Option]

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
    return 2 if used.operator in _INT8_IS_2 and used.holds(np.int8, at) else 1


def _first(*rules: tuple[Callable[[Signature], bool], int]) -> Callable[[Signature], int]:
    """The version of the first rule that applies, else that of the type."""

    def found(used: Signature) -> int:
        return next((number for applies, number in rules if applies(used)), _common(used))

    return found


def _int8(used: Signature) -> bool:
    return used.holds(np.int8)


def _bool(used: Signature) -> bool:
    return used.holds(np.bool_)


def _int32(used: Signature) -> bool:
    return used.holds(np.int32)


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
    "CAST": _first((_converts(np.float64), 5), (_converts(np.int8), 3)),
    "CONV_2D": _first((_grouped, 6), (_int8, 3)),
    "DEPTHWISE_CONV_2D": _first((_int8, 3), (_dilated, 2)),
    "DEQUANTIZE": _first((_of_channels, 5)),
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
