"""Classes of values that drivers tell apart: scalar operands and small constant tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ep_nnapi.nnapi.array import Array

Scalar: TypeAlias = bool | int | float

EXACT = ("activation", "padding", "axis", "mode", "type", "nms_kernel")
"""Integer operands with few values, each a class."""
COUNTS = (
    "stride_width",
    "stride_height",
    "filter_width",
    "filter_height",
    "dilation_width",
    "dilation_height",
    "depth_multiplier",
    "num_groups",
    "block_size",
    "num_splits",
)
"""Integer operands whose values 1 and 2 are classes, and all above."""
SIZES = ("output_width", "output_height", "k", "shape", "dims")
"""Operands that are sizes of tensors, of which drivers look at the tensors."""


def class_of_scalar(name: str, value: Scalar) -> str:
    """The class of the value of a constant scalar operand."""
    if name in SIZES:
        return "size"
    if isinstance(value, bool) or name in EXACT:
        return str(value)
    if name in COUNTS:
        return str(value) if value in (1, 2) else "3+" if value > 2 else "0-"
    if value == 0 or (value == 1 and not name.startswith("padding_")):
        return str(int(value))
    return "+" if value > 0 else "-"


def class_of_contents(name: str, array: Array) -> str | None:
    """The class of the elements of a constant tensor of indexes; None if they do not matter."""
    classify = _CONTENTS.get(name)
    return None if classify is None else classify([int(i) for i in array.reshape(-1)])


def _exactly(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def _sign(values: Sequence[int]) -> str:
    return "-" if any(v < 0 for v in values) else "+"


def _padded(values: Sequence[int]) -> str:
    """One digit for each axis: 1 if it is padded."""
    if any(v < 0 for v in values):
        return "-"
    pairs = zip(values[::2], values[1::2], strict=True)
    return "".join("1" if any(pair) else "0" for pair in pairs)


def _steps(values: Sequence[int]) -> str:
    if any(v < 0 for v in values):
        return "-"
    return "1" if all(v == 1 for v in values) else "+"


def _axes(values: Sequence[int]) -> str:
    """The axes in ascending order; "-" leads if some count from the end."""
    return ("- " if any(v < 0 for v in values) else "") + _exactly(sorted(values))


_CONTENTS: Mapping[str, Callable[[Sequence[int]], str]] = {
    "axes": _axes,
    "perm": _exactly,
    "paddings": _padded,
    "strides": _steps,
    "begin": _sign,
    "end": _sign,
    "size": _sign,
    "shape": _sign,
}
