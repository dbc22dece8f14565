"""Arguments of operations on graph values: values, views of them and scalars; NNAPI's types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.graph.value import (
    MAX_RANK,
    Constant,
    DType,
    Quantization,
    Value,
    operand_shape,
)
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.sizes import Size

NHWC = (0, 2, 3, 1)
"""Permutation from an NCHW shape to NHWC: for each physical dimension, its NCHW axis."""


@immutable
class View:
    """A value stored with permuted axes: physical axis i is logical axis `perm[i]`."""

    value: Value
    perm: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in physical order."""
        shape = self.value.shape
        return tuple([shape[i] for i in self.perm])


Scalar: TypeAlias = bool | int | float
Arg: TypeAlias = Value | View | Scalar | None
Given: TypeAlias = Arg | Constant | Sequence[Value | View]


def value_of(arg: Arg) -> Value | None:
    """The value of a tensor operand in any layout; None for scalars and omitted ones."""
    if isinstance(arg, Value):
        return arg
    return arg.value if isinstance(arg, View) else None


def nhwc(value: Value) -> View:
    """A view of an NCHW value in NHWC, NNAPI's default layout."""
    return View(value, NHWC)


_CODES = {
    DType.FLOAT: OperandCode.TENSOR_FLOAT32,
    DType.FLOAT16: OperandCode.TENSOR_FLOAT16,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.BOOL: OperandCode.TENSOR_BOOL8,
}
_QUANTIZED = {
    DType.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    DType.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    DType.UINT16: OperandCode.TENSOR_QUANT16_ASYMM,
    DType.INT16: OperandCode.TENSOR_QUANT16_SYMM,
}


def operand_code(value: Value) -> OperandCode | None:
    """The NNAPI tensor type for the type and quantization of `value`; None if there is none."""
    q = value.quantization
    if q is None:
        return _CODES.get(value.dtype)
    if not q.per_tensor:
        per_channel = value.dtype is DType.INT8 and not any(q.zero_point)
        return OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL if per_channel else None
    if value.dtype is DType.INT32:  # a bias: NNAPI stores it as TENSOR_INT32 with a scale
        return OperandCode.TENSOR_INT32
    return _QUANTIZED.get(value.dtype)


def kind_of(arg: Arg) -> object:
    """What decides which types an argument fits."""
    if isinstance(arg, Value):
        return operand_code(arg) if arg.quantization else _CODES.get(arg.dtype)
    if isinstance(arg, View):
        return operand_code(arg.value)
    return int if isinstance(arg, Size) else type(arg)


def rank_of(arg: Arg) -> int:
    """Rank of the operand for an argument, 0 for a scalar."""
    if isinstance(arg, Value):
        rank = len(arg.shape)
        return rank if 0 < rank <= MAX_RANK else 1
    return len(arg.perm) if isinstance(arg, View) else 0


@dataclass(slots=True)  # not frozen: thousands are created, which would take three times as long
class TypedArg:
    """Adapter from a call's argument to the `Typed` interface of rules."""

    arg: Arg

    @property
    def kind(self) -> object:
        """See `kind_of`."""
        return kind_of(self.arg)

    @property
    def rank(self) -> int | None:
        """See `rank_of`."""
        return rank_of(self.arg)

    @property
    def omitted(self) -> bool:
        """True for None."""
        return self.arg is None

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the operand; () for a scalar."""
        if isinstance(self.arg, View):
            return self.arg.shape
        return operand_shape(self.arg.shape) if isinstance(self.arg, Value) else ()

    @property
    def _quantization(self) -> Quantization | None:
        value = value_of(self.arg)
        return value.quantization if value is not None else None

    @property
    def scale(self) -> float:
        """Scale for the whole tensor; 0 if there is none."""
        q = self._quantization
        return q.scale[0] if q is not None and q.per_tensor else 0.0

    @property
    def zero_point(self) -> int:
        """Zero point for the whole tensor; 0 if there is none."""
        q = self._quantization
        return q.zero_point[0] if q is not None and q.per_tensor else 0

    @property
    def channel_dim(self) -> int | None:
        """Axis of the operand that has scales of its own; None if there is none."""
        q = self._quantization
        if q is None or q.axis is None:
            return None
        return self.arg.perm.index(q.axis) if isinstance(self.arg, View) else q.axis

    def fits(self, code: OperandCode) -> bool:
        """True if the argument can be an operand of this type."""
        arg = self.arg
        if arg is None:
            return True
        if isinstance(arg, bool):
            return code is OperandCode.BOOL
        if isinstance(arg, int):
            return code in (OperandCode.INT32, OperandCode.UINT32)
        if isinstance(arg, float):
            return code in (OperandCode.FLOAT32, OperandCode.FLOAT16)
        return operand_code(arg.value if isinstance(arg, View) else arg) is code

    def describe(self) -> str:
        """Name and type for a message."""
        value = value_of(self.arg)
        if value is not None:
            code = operand_code(value)
            return f"{value.name} is {code.name if code else value.dtype.name}"
        return f"{self.arg} is a {type(self.arg).__name__}"
