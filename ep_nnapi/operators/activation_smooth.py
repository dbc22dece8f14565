"""Smooth activations: Elu, Selu, Celu, Softplus, Mish, Softsign, Swish and Gelu."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import (
    ADD,
    DIV,
    ELU,
    EXP,
    LOGISTIC,
    MINIMUM,
    MUL,
    RELU,
    TANH,
)
from ep_nnapi.operators.lib.approximations import gelu as exact_gelu
from ep_nnapi.operators.lib.approximations import log_of_more, tanh_gelu
from ep_nnapi.operators.lib.approximations import swish as sigmoid_times
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Node, one_to_one, op
from ep_nnapi.operators.lib.signs import absolute_of, negative_of
from ep_nnapi.operators.lib.widening import widened

ONE_TO_ONE = (
    one_to_one("Sigmoid", LOGISTIC, since=6),
    one_to_one("Tanh", TANH, since=6),
)


@op("Elu", since=6)
def elu(n: Node) -> Iterator[Call]:
    """X, or alpha (e^x - 1) where negative.

    Source: ONNX Elu-6, Elu-22; NDK ANEURALNETWORKS_ELU.
    """
    x = n.input(0)
    yield from _elu(n, x, n.real("alpha", 1.0), n.output())


def _elu(n: Node, x: Value, alpha: float, y: Value) -> Iterator[Call]:
    """Emit ELU; where the level lacks it, RELU(x) + alpha (e^b - 1), b = min(x, 0).

    With t = tanh(-b / 2), e^b - 1 is -2 t / (1 + t), which keeps small numbers: within 5e-7 |y|.
    """
    call = apply(ELU, x, alpha=alpha, out=y)
    if n.supports(call):
        yield call
        return
    half = yield from compute(n, MUL, x, n.scalar(-0.5, x), activation=FuseCode.RELU)
    tangent = yield from compute(n, TANH, half)
    more = yield from compute(n, ADD, tangent, n.scalar(1, x))
    scaled = yield from compute(n, MUL, tangent, n.scalar(-2 * alpha, x))
    below = yield from compute(n, DIV, scaled, more)
    yield apply(ADD, (yield from compute(n, RELU, x)), below, out=y)


@op("Selu", since=6)
def selu(n: Node) -> Iterator[Call]:
    """Gamma times ELU of alpha.

    Source: ONNX Selu-6, Selu-22; NDK ANEURALNETWORKS_ELU.
    """
    x, y = n.input(0), n.output()
    part = n.temp(x)
    yield from _elu(n, x, n.real("alpha", 1.67326319217681884765625), part)
    yield apply(MUL, part, n.scalar(n.real("gamma", 1.05070102214813232421875), x), out=y)


@op("Celu", since=12)
def celu(n: Node) -> Iterator[Call]:
    """RELU(x) + ELU(min(x, 0) / alpha) of alpha.

    Source: ONNX Celu-12; NDK ANEURALNETWORKS_ELU.
    """
    x, y, alpha = n.input(0), n.output(), n.real("alpha", 1.0)
    n.require(alpha != 0, Reason.ATTRIBUTE, "alpha is 0, and Celu divides by it")
    if alpha == 1.0:
        yield from _elu(n, x, alpha, y)
        return
    below = yield from compute(n, MINIMUM, x, n.scalar(0, x))
    scaled = yield from compute(n, MUL, below, n.scalar(1 / alpha, x))
    part = n.temp(x)
    yield from _elu(n, scaled, alpha, part)
    yield apply(ADD, (yield from compute(n, RELU, x)), part, out=y)


@op("Softplus", since=1)
@widened
def softplus(n: Node) -> Iterator[Call]:
    """RELU(x) + log(1 + e^-|x|), in which nothing overflows or is lost, within 5e-7 |y|.

    Source: ONNX Softplus-1, Softplus-22; NDK ANEURALNETWORKS_EXP; `approximations.log_of_more`.
    """
    x, y = n.input(0), n.output()
    below = yield from negative_of(n, (yield from absolute_of(n, x)))
    power = yield from compute(n, EXP, below)
    log = yield from log_of_more(n, power)
    yield apply(ADD, (yield from compute(n, RELU, x)), log, out=y)


@op("Mish", since=18)
@widened
def mish(n: Node) -> Iterator[Call]:
    """X tanh(log(1 + e)) with e = e^x: x m / (m + 2) with m = e (e + 2), within 6e-7 |y|.

    Source: ONNX Mish-18, Mish-22; NDK ANEURALNETWORKS_EXP.
    """
    x, two = n.input(0), n.scalar(2, n.input(0))
    below = yield from compute(n, MINIMUM, x, n.scalar(20, x))  # beyond, m / (m + 2) is 1
    power = yield from compute(n, EXP, below)
    more = yield from compute(n, ADD, power, two)
    part = yield from compute(n, MUL, power, more)
    whole = yield from compute(n, ADD, part, two)
    share = yield from compute(n, DIV, part, whole)
    yield apply(MUL, x, share, out=n.output())


@op("Softsign", since=1)
def softsign(n: Node) -> Iterator[Call]:
    """X / (1 + |x|).

    Source: ONNX Softsign-1, Softsign-22; NDK ANEURALNETWORKS_DIV.
    """
    x = n.input(0)
    size = yield from absolute_of(n, x)
    yield apply(DIV, x, (yield from compute(n, ADD, size, n.scalar(1, x))), out=n.output())


@op("Swish", since=24)
def swish(n: Node) -> Iterator[Call]:
    """X sigmoid(alpha x).

    Source: ONNX Swish-24; NDK ANEURALNETWORKS_LOGISTIC.
    """
    yield from sigmoid_times(n, n.input(0), n.output(), n.real("alpha", 1.0))


@op("Gelu", since=20)
@widened
def gelu(n: Node) -> Iterator[Call]:
    """X times the normal distribution function, or its approximation by `tanh`.

    The error is at most 4e-7 for |x| < 4, and 2e-7 |x| beyond.
    Source: ONNX Gelu-20; NDK ANEURALNETWORKS_LOGISTIC; `curves.gelu`.
    """
    by_tanh = n.text("approximate", "none") == "tanh"
    yield from (tanh_gelu if by_tanh else exact_gelu)(n, n.input(0), n.output())
