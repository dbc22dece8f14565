"""Softmax and LogSoftmax."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ep_nnapi.graph.value import MAX_RANK, Value
from ep_nnapi.lowering.call import Call, apply, nhwc
from ep_nnapi.nnapi.spec import LOG_SOFTMAX, SOFTMAX
from ep_nnapi.operators.lib.emit import output_or_temp, reshaped, write_output
from ep_nnapi.operators.lib.merge_axes import sizes_around
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.window import require_permute


@op("Softmax", since=1)
def softmax_1(n: Node) -> Iterator[Call]:
    """Normalizes all from `axis` (default 1) on as one row.

    Source: ONNX Softmax-1, Softmax-11; NDK ANEURALNETWORKS_SOFTMAX.
    """
    x, axis = n.input(0), n.axis(default=1)
    if prod(x.shape[axis + 1 :]) == 1:
        yield from _softmax(n, x, axis, n.output())
        return
    row = (prod(x.shape[:axis]), prod(x.shape[axis:]))
    rows = yield from reshaped(n, x, row)
    out = output_or_temp(n, n.output(), row)
    yield apply(SOFTMAX, rows, beta=1.0, out=out)
    yield from write_output(n, out, n.output())


@op("Softmax", since=13)
def softmax_13(n: Node) -> Iterator[Call]:
    """Normalizes along the one `axis` (default: the last).

    Source: ONNX Softmax-13; NDK ANEURALNETWORKS_SOFTMAX.
    """
    yield from _softmax(n, n.input(0), n.axis(default=-1), n.output())


def _softmax(n: Node, x: Value, axis: int, y: Value) -> Iterator[Call]:
    """Emit SOFTMAX; where the level has no axis operand, on an image with `axis` as channels."""
    direct = apply(SOFTMAX, x, beta=1.0, axis=None if axis == x.rank - 1 else axis, out=y)
    if x.rank <= MAX_RANK and n.supports(direct):
        yield direct
        return
    before, size, after = sizes_around(x.shape, axis)
    shape = (before, size) if after == 1 else (before, size, 1, after)
    seen = yield from reshaped(n, x, shape)
    out = output_or_temp(n, y, shape)
    if after == 1:
        yield apply(SOFTMAX, seen, beta=1.0, out=out)
    else:
        require_permute(n, seen)
        yield apply(SOFTMAX, nhwc(seen), beta=1.0, out=nhwc(out))
    yield from write_output(n, out, y)


@op("LogSoftmax", since=1)
def log_softmax_1(n: Node) -> Iterator[Call]:
    """The logarithm of Softmax-1: all from `axis` (default 1) on is one row.

    Source: ONNX LogSoftmax-1, LogSoftmax-11; NDK ANEURALNETWORKS_LOG_SOFTMAX.
    """
    x, axis = n.input(0), n.axis(default=1)
    yield from _log_softmax(n, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@op("LogSoftmax", since=13)
def log_softmax_13(n: Node) -> Iterator[Call]:
    """The logarithm of Softmax-13, along the one `axis` (default: the last).

    Source: ONNX LogSoftmax-13; NDK ANEURALNETWORKS_LOG_SOFTMAX.
    """
    x, axis = n.input(0), n.axis(default=-1)
    if x.rank <= MAX_RANK:
        yield apply(LOG_SOFTMAX, x, beta=1.0, axis=axis, out=n.output())
    else:
        yield from _log_softmax(n, x, sizes_around(x.shape, axis))


def _log_softmax(n: Node, x: Value, shape: tuple[int, ...]) -> Iterator[Call]:
    """Emit LOG_SOFTMAX along the second axis of `x` reshaped to `shape`."""
    seen = yield from reshaped(n, x, shape)
    out = output_or_temp(n, n.output(), shape)
    yield apply(LOG_SOFTMAX, seen, beta=1.0, axis=1, out=out)
    yield from write_output(n, out, n.output())
