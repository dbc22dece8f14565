"""Pooling operators, over windows and global."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    AVERAGE_POOL_2D,
    L2_POOL_2D,
    MAX_POOL_2D,
    MEAN,
    POW,
    REDUCE_MAX,
)
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.moments import reduce
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.separable_pool import (
    AxisWindow,
    PoolPass,
    axis_windows,
    pooled,
    whole_image,
)
from ep_nnapi.operators.lib.signs import absolute_of


@op("MaxPool", since=1)
def max_pool(n: Node) -> Iterator[Call]:
    """The greatest element of each window.

    x [N, C, ...], y [N, C, ...] with one to three dimensions after the channels
    Source: ONNX MaxPool-1 to MaxPool-22; NDK ANEURALNETWORKS_MAX_POOL_2D.
    """
    n.require(
        not n.has_output(1),
        Reason.ATTRIBUTE,
        "output Indices is used; NNAPI's pools have no such output",
    )
    x, y = n.input(0), n.output()
    yield from pooled(n, MAX_POOL_2D, x, axis_windows(n, x, y), y)


@op("AveragePool", since=1)
def average_pool_1(n: Node) -> Iterator[Call]:
    """The mean of each window, of which padding is a part with `count_include_pad`.

    A window larger than the image and its padding, as ONNX Runtime allows one, counts wholly then.
    Source: ONNX AveragePool-1 to AveragePool-11; NDK ANEURALNETWORKS_AVERAGE_POOL_2D.
    """
    yield from _average(n, beyond=not n.integer("ceil_mode", 0))


@op("AveragePool", since=19)
def average_pool_19(n: Node) -> Iterator[Call]:
    """The same, of which no window counts beyond the padding.

    Source: ONNX AveragePool-19 to AveragePool-22; NDK ANEURALNETWORKS_AVERAGE_POOL_2D.
    """
    yield from _average(n, beyond=False)


def _average(n: Node, *, beyond: bool) -> Iterator[Call]:
    """Emit the mean; with `count_include_pad` a factor corrects NNAPI's, which excludes padding."""
    x, y = n.input(0), n.output()
    padding_counts = n.integer("count_include_pad", 0) != 0

    def factors(pool_pass: PoolPass) -> tuple[Array, Array]:
        axes = (pool_pass.height, pool_pass.width)
        padded = (s.kernel if beyond else s.taps_in_padded_image() for s in axes)
        counts = padded if padding_counts else (s.taps_in_image() for s in axes)
        height, width = (a / c for a, c in zip(pool_pass.averaged_counts(), counts, strict=True))
        return height, width

    windows = axis_windows(n, x, y)
    whole = all(w.dilation == 1 and not w.before and not w.after for w in windows)
    yield from pooled(n, AVERAGE_POOL_2D, x, windows, y, None if whole else factors)


@op("LpPool", since=1)
def lp_pool(n: Node) -> Iterator[Call]:
    """The p-norm of each window, `p` being 2 by default.

    Source: ONNX LpPool-1 to LpPool-22; NDK ANEURALNETWORKS_L2_POOL_2D.
    """
    x, y = n.input(0), n.output()
    yield from _norms(n, x, axis_windows(n, x, y), y)


@op("GlobalLpPool", since=1)
def global_lp_pool(n: Node) -> Iterator[Call]:
    """The p-norm of each channel, `p` being 2 by default.

    Source: ONNX GlobalLpPool-1 to GlobalLpPool-22; NDK ANEURALNETWORKS_L2_POOL_2D.
    """
    x, y = n.input(0), n.output()
    yield from _norms(n, x, whole_image(x), y)


def _norms(n: Node, x: Value, windows: Sequence[AxisWindow], y: Value) -> Iterator[Call]:
    """Emit the p-norm of each window; factors undo NNAPI's division by the number of elements."""
    p = n.real("p", 2.0)
    n.require(p > 0, Reason.ATTRIBUTE, f"p is {p:g}; a norm has p > 0")
    if p == 2:
        yield from pooled(n, L2_POOL_2D, x, windows, y, _lengths)
        return
    size = yield from absolute_of(n, x)
    if p == 1:
        yield from pooled(n, AVERAGE_POOL_2D, size, windows, y, PoolPass.averaged_counts)
        return
    power = yield from compute(n, POW, size, n.scalar(p, x))
    total = n.temp(y)
    yield from pooled(n, AVERAGE_POOL_2D, power, windows, total, PoolPass.averaged_counts)
    yield apply(POW, total, n.scalar(1 / p, x), out=y)


def _lengths(pool_pass: PoolPass) -> tuple[Array, Array]:
    height, width = pool_pass.averaged_counts()
    return np.sqrt(height), np.sqrt(width)


@op("GlobalAveragePool", since=1)
def global_average_pool(n: Node) -> Iterator[Call]:
    """The mean of each channel.

    Source: ONNX GlobalAveragePool-1, GlobalAveragePool-22; NDK ANEURALNETWORKS_MEAN,
    ANEURALNETWORKS_AVERAGE_POOL_2D.
    """
    yield from _global(n, MEAN, AVERAGE_POOL_2D)


@op("GlobalMaxPool", since=1)
def global_max_pool(n: Node) -> Iterator[Call]:
    """The greatest element of each channel.

    Source: ONNX GlobalMaxPool-1, GlobalMaxPool-22; NDK ANEURALNETWORKS_REDUCE_MAX,
    ANEURALNETWORKS_MAX_POOL_2D.
    """
    yield from _global(n, REDUCE_MAX, MAX_POOL_2D)


def _global(n: Node, reduction: OperationSpec, pool: OperationSpec) -> Iterator[Call]:
    """Emit a global pool: a reduction, which needs no layout change, or a full-size window."""
    x, y = n.input(0), n.output()
    calls = list(reduce(n, reduction, x, range(2, x.rank), y, keep=True))
    alike = x.quantization == y.quantization
    yield from (
        calls if alike and all(map(n.supports, calls)) else pooled(n, pool, x, whole_image(x), y)
    )
