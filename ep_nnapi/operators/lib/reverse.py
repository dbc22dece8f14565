"""Lowering steps that reverse an axis or indexes along it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import GATHER
from ep_nnapi.operators.lib.emit import Computed, compute
from ep_nnapi.operators.lib.node import Node, int32


def reverse_axis(n: Node, x: Value, axis: int) -> Computed:
    """Reverse `x` along `axis` with GATHER, which needs a lower feature level than REVERSE."""
    if x.shape[axis] == 1:
        return x
    order = int32(range(x.shape[axis])[::-1])
    return (yield from compute(n, GATHER, x, axis=axis, indices=order, shape=x.shape))


def mirrored_indices(n: Node, places: Value, size: int, y: Value) -> Iterator[Call]:
    """Emit `y` = size - 1 - `places`, of type INT32 or float."""
    yield apply(GATHER, _countdown(size, y.dtype), axis=0, indices=places, out=y)


def _countdown(size: int, dtype: DType) -> Constant:
    return Constant.of(np.arange(size, dtype=dtype.numpy)[::-1])
