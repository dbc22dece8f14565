"""Piecewise linear activations: Relu, Clip, HardSigmoid, HardSwish, LeakyRelu, PRelu, Shrink."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import (
    ADD,
    GREATER,
    HARD_SWISH,
    LESS,
    MAXIMUM,
    MUL,
    RELU,
    SELECT,
    SUB,
)
from ep_nnapi.operators.lib.broadcast_shape import broadcast_shape
from ep_nnapi.operators.lib.emit import compute, full
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.piecewise_linear import (
    bounds_of,
    clip,
    scaled_hard_sigmoid,
    write_leaky_relu,
    write_prelu,
)
from ep_nnapi.operators.lib.quantizing import is_8bit


@op("Relu", since=6)
def relu(n: Node) -> Iterator[Call]:
    """The larger of x and 0.

    Source: ONNX Relu-6, Relu-13, Relu-14; NDK ANEURALNETWORKS_RELU.
    """
    x, y = n.input(0), n.output()
    if x.dtype is DType.INT32:
        yield apply(MAXIMUM, x, n.scalar(0, x), out=y)
    elif is_8bit(y):
        yield from clip(n, x, bounds_of(n), y)
    else:
        yield apply(RELU, x, out=y)


@op("Clip", since=6)
def clip_6(n: Node) -> Iterator[Call]:
    """Clipped to the attributes `min` and `max`.

    Source: ONNX Clip-6; NDK ANEURALNETWORKS_RELU1, ANEURALNETWORKS_RELU6 and siblings.
    """
    x, y = n.input(0), n.output()
    if is_8bit(y):
        yield from clip(n, x, bounds_of(n), y)
        return
    low, high = (
        n.scalar(n.real(name), x) if n.has_attribute(name) else None for name in ("min", "max")
    )
    yield from clip(n, x, (low, high), y)


@op("Clip", since=11)
def clip_11(n: Node) -> Iterator[Call]:
    """Clipped to the inputs `min` and `max`, either of which may be omitted or computed.

    Source: ONNX Clip-11, Clip-12, Clip-13; NDK ANEURALNETWORKS_RELU1, ANEURALNETWORKS_RELU6 and
    siblings.
    """
    yield from clip(n, n.input(0), bounds_of(n), n.output())


@op("HardSigmoid", since=6)
def hard_sigmoid(n: Node) -> Iterator[Call]:
    """Alpha x + beta between 0 and 1: a sixth of RELU6 of six times that.

    Source: ONNX HardSigmoid-6, HardSigmoid-22; NDK FuseCode RELU6.
    """
    x = n.input(0)
    share = yield from scaled_hard_sigmoid(n, x, n.real("alpha", 0.2), n.real("beta", 0.5))
    yield apply(MUL, share, n.scalar(1 / 6, x), out=n.output())


@op("HardSwish", since=14)
def hard_swish(n: Node) -> Iterator[Call]:
    """X times its hard sigmoid with slope 1/6.

    Source: ONNX HardSwish-14, HardSwish-22; NDK ANEURALNETWORKS_HARD_SWISH.
    """
    x, y = n.input(0), n.output()
    call = apply(HARD_SWISH, x, out=y)
    if n.supports(call) or x.quantization is not None:
        yield call
        return
    share = yield from scaled_hard_sigmoid(n, x, 1 / 6, 0.5)
    part = yield from compute(n, MUL, share, n.scalar(1 / 6, x))
    yield apply(MUL, x, part, out=y)


@op("LeakyRelu", since=6)
def leaky_relu(n: Node) -> Iterator[Call]:
    """X, times `alpha` where negative: PRELU with one slope.

    Source: ONNX LeakyRelu-6, LeakyRelu-16; NDK ANEURALNETWORKS_PRELU.
    """
    x = n.input(0)
    yield from write_leaky_relu(n, x, n.real("alpha", 0.01), n.output())


@op("PRelu", since=7)
def prelu(n: Node) -> Iterator[Call]:
    """X, times its slope where negative; slopes broadcast to x.

    Source: ONNX PRelu-7, PRelu-9, PRelu-16; NDK ANEURALNETWORKS_PRELU.
    """
    x, slope = n.input(0), n.input(1)
    detail = f"slopes {list(slope.shape)} do not broadcast to {list(x.shape)}"
    n.require(broadcast_shape(x.shape, slope.shape) == x.shape, Reason.SHAPE, detail)
    yield from write_prelu(n, x, slope, n.output())


@op("ThresholdedRelu", since=10)
def thresholded_relu(n: Node) -> Iterator[Call]:
    """X where it exceeds `alpha`, else 0.

    Source: ONNX ThresholdedRelu-10, ThresholdedRelu-22; NDK ANEURALNETWORKS_SELECT.
    """
    x = n.input(0)
    alpha = n.scalar(n.real("alpha", 1.0), x)
    above = yield from compute(n, GREATER, x, alpha, dtype=DType.BOOL)
    zero = yield from full(n, 0, x.shape, x.dtype)
    yield apply(SELECT, above, x, zero, out=n.output())


@op("Shrink", since=9)
def shrink(n: Node) -> Iterator[Call]:
    """X nearer to 0 by `bias` where it is beyond `lambd`, else 0.

    Source: ONNX Shrink-9; NDK ANEURALNETWORKS_SELECT.
    """
    x, bias, limit = n.input(0), n.real("bias", 0.0), n.real("lambd", 0.5)
    n.require(limit >= 0, Reason.ATTRIBUTE, f"lambd is {limit:g}; a limit is at least 0")
    above = yield from compute(n, GREATER, x, n.scalar(limit, x), dtype=DType.BOOL)
    below = yield from compute(n, LESS, x, n.scalar(-limit, x), dtype=DType.BOOL)
    less = yield from compute(n, SUB, x, n.scalar(bias, x))
    more = yield from compute(n, ADD, x, n.scalar(bias, x))
    zero = yield from full(n, 0, x.shape, x.dtype)
    rest = yield from compute(n, SELECT, below, more, zero, shape=x.shape, dtype=x.dtype)
    yield apply(SELECT, above, less, rest, out=n.output())
