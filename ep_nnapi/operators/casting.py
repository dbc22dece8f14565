"""Cast and CastLike: conversion of element types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import CAST, DEQUANTIZE, NOT_EQUAL
from ep_nnapi.operators.lib.emit import compute, narrow, number_into, reshape
from ep_nnapi.operators.lib.node import Node, Op

_FLOATS = (DType.FLOAT, DType.FLOAT16)
_BYTES = (DType.UINT8, DType.INT8)
_AS_IT_IS = Quantization((1.0,), (0,))
"""Quantization parameters with which the stored number is the real number."""


def lower(n: Node) -> Iterator[Call]:
    """Emit the first input cast to the element type of the output.

    Raises Reject(DTYPE) if INT64 numbers may not fit INT32.
    """
    x, y = n.input(0), n.output()
    n.require(
        x.quantization is None and y.quantization is None,
        Reason.QUANTIZATION,
        f"{x.name} or {y.name} is quantized; a cast is of plain numbers",
    )
    if x.dtype is y.dtype:
        yield from reshape(n, x, y)
    elif x.dtype is DType.BOOL:
        yield from number_into(n, x, narrow(y))
    elif x.dtype in _BYTES:
        yield from _from_bytes(n, x, y)
    else:
        _require_range(n, x, y)
        yield from _cast(n, narrow(x), narrow(y))


def _require_range(n: Node, x: Value, y: Value) -> None:
    """Raise Reject(DTYPE) for casts from or to INT64 whose numbers may not fit INT32.

    NNAPI stores INT64 as INT32. Allowed are casts from INT32 to INT64 and from INT64 to INT32.
    """
    known = x.dtype is DType.INT32 if y.dtype is DType.INT64 else y.dtype is DType.INT32
    wide = next((v for v in (x, y) if v.dtype is DType.INT64), None)
    if wide is not None and not known:
        n.require(
            False, Reason.DTYPE, f"{wide.name} is INT64, whose numbers may exceed INT32; use INT32"
        )


def _cast(n: Node, x: Value, y: Value) -> Iterator[Call]:
    yield (
        apply(NOT_EQUAL, x, n.scalar(0, x), out=y)
        if y.dtype is DType.BOOL
        else apply(CAST, x, out=y)
    )


def _from_bytes(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit the cast of an 8-bit integer as a DEQUANTIZE with scale 1 and zero point 0."""
    seen = replace(x, quantization=_AS_IT_IS)
    if y.dtype in _FLOATS:
        yield apply(DEQUANTIZE, seen, out=y)
        return
    number = yield from compute(n, DEQUANTIZE, seen, dtype=DType.FLOAT)
    yield from _cast(n, number, narrow(y))


def _casting(op_type: str, since: int, doc: str) -> Op:
    source = f"Source: ONNX {op_type}-{since} to {op_type}-25; NDK ANEURALNETWORKS_CAST."
    return Op(op_type, "", since, lower, f"{doc}\n\n{source}")


TABLE = (
    _casting("Cast", 6, "The same numbers as another type; fractions are cut off."),
    _casting("CastLike", 15, "The same numbers as the second input's type."),
)
