"""Transformations of constant convolution filters: slicing, dilation and zero padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ep_nnapi.graph.value import Quantization, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.node import Node

Padding = Sequence[tuple[int, int]]


def dilated_filter(n: Node, w: Value, dilations: Sequence[int], margins: Padding = ()) -> Value:
    """Return the constant filter [., ., kH, kW] dilated, and zero-padded by `margins`.

    The result of the convolution is exactly the same. Quantized filters use their zero point.
    """
    around = tuple(margins) or ((0, 0), (0, 0))
    if tuple(dilations) == (1, 1) and not any(map(any, around)):
        return w
    n.require(
        w.constant is not None,
        Reason.CONSTANT,
        f"{w.name} must be constant to be dilated or padded",
    )
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    shape = (*w.shape[:2], *(r + sum(m) for r, m in zip(reach, around, strict=True)))
    zero = w.quantization.zero_point[0] if w.quantization is not None else 0
    (top, _), (left, _) = around

    def put(array: Array) -> Array:
        found = np.full(shape, zero, array.dtype)
        rows = slice(top, top + reach[0], dilations[0])
        columns = slice(left, left + reach[1], dilations[1])
        found[:, :, rows, columns] = array
        return found

    return replace(w, dims=shape, constant=w.constant.map(shape, put) if w.constant else None)


def filter_rows(n: Node, x: Value, begin: int, end: int) -> Value:
    """Return rows `begin` to `end` of a constant filter or bias, with their scales."""
    n.require(x.constant is not None, Reason.CONSTANT, f"{x.name} must be constant to be split")
    shape = (end - begin, *x.shape[1:])
    rows = x.constant.map(shape, lambda a: a[begin:end]) if x.constant else None
    q = x.quantization
    if q is not None and q.axis == 0:
        q = Quantization(q.scale[begin:end], q.zero_point[begin:end], 0)
    return replace(x, dims=shape, constant=rows, quantization=q)
