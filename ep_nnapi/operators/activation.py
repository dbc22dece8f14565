"""Activation functions: Relu and its relatives, Clip, Elu, Sigmoid, Tanh, Gelu and others."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.activation import (
    bounds_of,
    clip,
    log_of_more,
    tanh_gelu,
    write_hard_sigmoid,
    write_leaky_relu,
    write_prelu,
)
from ep_nnapi.operators.lib.activation import gelu as exact_gelu
from ep_nnapi.operators.lib.activation import swish as sigmoid_times
from ep_nnapi.operators.lib.node import Node, broadcast_shape, one_to_one, op, widened
from ep_nnapi.operators.lib.quantizing import is_8bit


@op("Relu", since=6)
def relu(n: Node) -> Iterator[Call]:
    """The larger of x and 0."""
    x, y = n.input(0), n.output()
    if x.dtype is DType.INT32:
        yield apply(spec.MAXIMUM, x, n.scalar(0, x), out=y)
    elif is_8bit(y):
        yield from clip(n, x, bounds_of(n), y)
    else:
        yield apply(spec.RELU, x, out=y)


@op("Clip", since=6, keeps=True)
def clip_6(n: Node) -> Iterator[Call]:
    """Clipped to the attributes `min` and `max`."""
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

    Without a bound, or at the greatest finite number, infinities stay, which takes no operation.
    """
    yield from clip(n, n.input(0), bounds_of(n), n.output())


@op("HardSigmoid", since=6)
def hard_sigmoid(n: Node) -> Iterator[Call]:
    """Alpha x + beta between 0 and 1: a sixth of RELU6 of six times that."""
    line = n.real("alpha", 0.2), n.real("beta", 0.5)
    yield from write_hard_sigmoid(n, n.input(0), n.output(), *line)


@op("HardSwish", since=14, function=True)
def hard_swish(n: Node) -> Iterator[Call]:
    """X times its hard sigmoid with slope 1/6."""
    x, y = n.input(0), n.output()
    call = apply(spec.HARD_SWISH, x, out=y)
    if n.supports(call) or x.quantization is not None:
        yield call
        return
    part = n.temp(x)
    yield from write_hard_sigmoid(n, x, part, alpha=1 / 6)
    yield apply(spec.MUL, x, part, out=y)


@op("LeakyRelu", since=6)
def leaky_relu(n: Node) -> Iterator[Call]:
    """X, times `alpha` where negative: PRELU with one slope."""
    x = n.input(0)
    yield from write_leaky_relu(n, x, n.real("alpha", 0.01), n.output())


@op("PRelu", since=7)
def prelu(n: Node) -> Iterator[Call]:
    """X, times its slope where negative; slopes broadcast to x."""
    x, slope = n.input(0), n.input(1)
    detail = f"slopes {list(slope.shape)} do not broadcast to {list(x.shape)}"
    n.require(broadcast_shape(x.shape, slope.shape) == x.shape, Reason.SHAPE, detail)
    yield from write_prelu(n, x, slope, n.output())


@op("ThresholdedRelu", since=10)
def thresholded_relu(n: Node) -> Iterator[Call]:
    """X where it exceeds `alpha`, else 0."""
    x = n.input(0)
    alpha = n.scalar(n.real("alpha", 1.0), x)
    above = yield from n.compute(spec.GREATER, x, alpha, dtype=DType.BOOL)
    zero = yield from n.full(0, x.shape, x.dtype)
    yield apply(spec.SELECT, above, x, zero, out=n.output())


@op("Shrink", since=9)
def shrink(n: Node) -> Iterator[Call]:
    """X nearer to 0 by `bias` where it is beyond `lambd`, else 0."""
    x, bias, limit = n.input(0), n.real("bias", 0.0), n.real("lambd", 0.5)
    n.require(limit >= 0, Reason.ATTRIBUTE, f"lambd is {limit:g}; a limit is at least 0")
    above = yield from n.compute(spec.GREATER, x, n.scalar(limit, x), dtype=DType.BOOL)
    below = yield from n.compute(spec.LESS, x, n.scalar(-limit, x), dtype=DType.BOOL)
    less = yield from n.compute(spec.SUB, x, n.scalar(bias, x))
    more = yield from n.compute(spec.ADD, x, n.scalar(bias, x))
    zero = yield from n.full(0, x.shape, x.dtype)
    rest = yield from n.compute(spec.SELECT, below, more, zero, shape=x.shape, dtype=x.dtype)
    yield apply(spec.SELECT, above, less, rest, out=n.output())


ONE_TO_ONE = (
    one_to_one("Sigmoid", spec.LOGISTIC, since=6, function=True),
    one_to_one("Tanh", spec.TANH, since=6, function=True),
)


@op("Elu", since=6, function=True)
def elu(n: Node) -> Iterator[Call]:
    """X, or alpha (e^x - 1) where negative."""
    x = n.input(0)
    yield from _elu(n, x, n.real("alpha", 1.0), n.output())


def _elu(n: Node, x: Value, alpha: float, y: Value) -> Iterator[Call]:
    """Emit ELU; where the level lacks it, RELU(x) + alpha (e^b - 1), b = min(x, 0).

    With t = tanh(-b / 2), e^b - 1 is -2 t / (1 + t), which keeps small numbers: within 5e-7 |y|.
    """
    call = apply(spec.ELU, x, alpha=alpha, out=y)
    if n.supports(call):
        yield call
        return
    half = yield from n.compute(spec.MUL, x, n.scalar(-0.5, x), activation=FuseCode.RELU)
    tangent = yield from n.compute(spec.TANH, half)
    more = yield from n.compute(spec.ADD, tangent, n.scalar(1, x))
    scaled = yield from n.compute(spec.MUL, tangent, n.scalar(-2 * alpha, x))
    below = yield from n.compute(spec.DIV, scaled, more)
    yield apply(spec.ADD, (yield from n.compute(spec.RELU, x)), below, out=y)


@op("Selu", since=6, function=True)
def selu(n: Node) -> Iterator[Call]:
    """Gamma times ELU of alpha."""
    x, y = n.input(0), n.output()
    part = n.temp(x)
    yield from _elu(n, x, n.real("alpha", 1.67326319217681884765625), part)
    yield apply(spec.MUL, part, n.scalar(n.real("gamma", 1.05070102214813232421875), x), out=y)


@op("Celu", since=12, function=True)
def celu(n: Node) -> Iterator[Call]:
    """RELU(x) + ELU(min(x, 0) / alpha) of alpha."""
    x, y, alpha = n.input(0), n.output(), n.real("alpha", 1.0)
    n.require(alpha != 0, Reason.ATTRIBUTE, "alpha is 0, and Celu divides by it")
    if alpha == 1.0:
        yield from _elu(n, x, alpha, y)
        return
    below = yield from n.compute(spec.MINIMUM, x, n.scalar(0, x))
    scaled = yield from n.compute(spec.MUL, below, n.scalar(1 / alpha, x))
    part = n.temp(x)
    yield from _elu(n, scaled, alpha, part)
    yield apply(spec.ADD, (yield from n.compute(spec.RELU, x)), part, out=y)


@op("Softplus", since=1, function=True)
@widened
def softplus(n: Node) -> Iterator[Call]:
    """RELU(x) + log(1 + e^-|x|), in which nothing overflows or is lost, within 5e-7 |y|."""
    x, y = n.input(0), n.output()
    below = yield from n.negative_of((yield from n.absolute_of(x)))
    power = yield from n.compute(spec.EXP, below)
    log = yield from log_of_more(n, power)
    yield apply(spec.ADD, (yield from n.compute(spec.RELU, x)), log, out=y)


@op("Mish", since=18, function=True)
@widened
def mish(n: Node) -> Iterator[Call]:
    """X tanh(log(1 + e)) with e = e^x: x m / (m + 2) with m = e (e + 2), within 6e-7 |y|."""
    x, two = n.input(0), n.scalar(2, n.input(0))
    below = yield from n.compute(spec.MINIMUM, x, n.scalar(20, x))  # beyond, m / (m + 2) is 1
    power = yield from n.compute(spec.EXP, below)
    more = yield from n.compute(spec.ADD, power, two)
    part = yield from n.compute(spec.MUL, power, more)
    whole = yield from n.compute(spec.ADD, part, two)
    share = yield from n.compute(spec.DIV, part, whole)
    yield apply(spec.MUL, x, share, out=n.output())


@op("Softsign", since=1)
def softsign(n: Node) -> Iterator[Call]:
    """X / (1 + |x|)."""
    x = n.input(0)
    size = yield from n.absolute_of(x)
    yield apply(spec.DIV, x, (yield from n.compute(spec.ADD, size, n.scalar(1, x))), out=n.output())


@op("Swish", since=24)
def swish(n: Node) -> Iterator[Call]:
    """X sigmoid(alpha x)."""
    yield from sigmoid_times(n, n.input(0), n.output(), n.real("alpha", 1.0))


@op("Gelu", since=20, function=True)
@widened
def gelu(n: Node) -> Iterator[Call]:
    """X times the normal distribution function, or its approximation by `tanh`.

    The error is at most 4e-7 for |x| < 4, and 2e-7 |x| beyond.
    """
    by_tanh = n.text("approximate", "none") == "tanh"
    yield from (tanh_gelu if by_tanh else exact_gelu)(n, n.input(0), n.output())
