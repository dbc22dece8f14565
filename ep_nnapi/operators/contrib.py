"""Operators of com.microsoft, which ONNX Runtime's graph optimizer puts into saved models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN
from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, Whole, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.activation import (
    clip,
    swish,
    tanh_gelu,
    write_hard_sigmoid,
    write_leaky_relu,
)
from ep_nnapi.operators.lib.activation import gelu as exact_gelu
from ep_nnapi.operators.lib.convolution import convolve
from ep_nnapi.operators.lib.matmul import affine, product, scaled_constant
from ep_nnapi.operators.lib.node import Computed, Node, op, widened
from ep_nnapi.operators.lib.reduction import Norm, normalize, scaled, standardized, write_statistics


@op("FusedConv", since=1, domain=MICROSOFT_DOMAIN)
def fused_conv(n: Node) -> Iterator[Call]:
    """A convolution, plus input Z, then an activation."""
    y = n.output()
    active = _activation(n, n.text("activation", ""), n.reals("activation_params", ()))
    convolved = n.temp(y)
    yield from convolve(n, convolved)
    if n.has(3):
        convolved = yield from n.compute(spec.ADD, convolved, n.input(3))
    yield from active(convolved, y)


@op("FusedGemm", since=1, domain=MICROSOFT_DOMAIN)
def fused_gemm(n: Node) -> Iterator[Call]:
    """Gemm, then an activation."""
    y = n.output()
    given = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    params = [n.real(name) for name in given if n.has_attribute(name)]
    active = _activation(n, n.text("activation", ""), params)
    total = n.temp(y)
    yield from affine(n, total)
    yield from active(total, y)


Activation: TypeAlias = Callable[[Value, Value], Iterator[Call]]


def _activation(n: Node, name: str, params: Sequence[float]) -> Activation:
    """Return the step that applies an activation, by its ONNX name and ordered parameters."""
    known: Mapping[str, Activation] = {
        "": n.reshape,
        "Relu": lambda x, y: iter((apply(spec.RELU, x, out=y),)),
        "Sigmoid": lambda x, y: iter((apply(spec.LOGISTIC, x, out=y),)),
        "Tanh": lambda x, y: iter((apply(spec.TANH, x, out=y),)),
        "LeakyRelu": lambda x, y: write_leaky_relu(n, x, params[0] if params else 0.01, y),
        "HardSigmoid": lambda x, y: write_hard_sigmoid(n, x, y, *_two(n, params or (0.2, 0.5))),
        "Clip": lambda x, y: clip(
            n, x, (n.scalar(_two(n, params)[0], x), n.scalar(params[1], x)), y
        ),
    }
    if name not in known:
        raise Reject(
            Reason.ATTRIBUTE, f"activation is {name}; only {', '.join(filter(None, known))}"
        )
    return known[name]


def _two(n: Node, params: Sequence[float]) -> Sequence[float]:
    detail = f"activation {n.text('activation')} has {len(params)} parameters; it takes 2"
    n.require(len(params) == 2, Reason.ATTRIBUTE, detail)
    return params


@op("Gelu", since=1, domain=MICROSOFT_DOMAIN)
@widened
def gelu(n: Node) -> Iterator[Call]:
    """X times the normal distribution function; bounds as ai.onnx Gelu."""
    yield from exact_gelu(n, n.input(0), n.output())


@op("BiasGelu", since=1, domain=MICROSOFT_DOMAIN)
@widened
def bias_gelu(n: Node) -> Iterator[Call]:
    """Gelu of the sum of both inputs."""
    total, y = (yield from _biased(n)), n.output()
    yield from _as_operator("Gelu", total, y, exact_gelu(n, total, y))


def _as_operator(op_type: str, x: Value, y: Value, calls: Iterator[Call]) -> Iterator[Call]:
    """Yield the calls as an operator of their own, which they are where a product has the sum."""
    whole = Whole(f"{MICROSOFT_DOMAIN}:{op_type}", 1, (x,), (y,), {})
    yield from (call.with_origin((), whole) for call in calls)


def _biased(n: Node) -> Computed:
    """Return x plus the bias in input 1, one for each element of the last axis."""
    x, bias = n.input(0), n.input(1)
    detail = f"{bias.name} has shape {list(bias.shape)}, {x.name} {list(x.shape)}"
    n.require(x.rank > 0 and bias.shape == x.shape[-1:], Reason.SHAPE, detail)
    return (yield from n.compute(spec.ADD, x, bias))


@op("FastGelu", since=1, domain=MICROSOFT_DOMAIN, function=True)
@widened
def fast_gelu(n: Node) -> Iterator[Call]:
    """Gelu by tanh, of the input or of its sum with a bias."""
    x, y = n.input(0), n.output()
    if n.has(1):
        x = yield from _biased(n)
    yield from _as_operator("FastGelu", x, y, tanh_gelu(n, x, y))


@op("QuickGelu", since=1, domain=MICROSOFT_DOMAIN, function=True)
@widened
def quick_gelu(n: Node) -> Iterator[Call]:
    """X sigmoid(alpha x)."""
    yield from swish(n, n.input(0), n.output(), n.real("alpha", 1.702))


@op("FusedMatMul", since=1, domain=MICROSOFT_DOMAIN)
def fused_matmul(n: Node) -> Iterator[Call]:
    """`alpha` times a product of matrices, each transposed by `transA`, `transB`."""
    a, b, y, alpha = n.input(0), n.input(1), n.output(), n.real("alpha", 1.0)
    for name in ("transBatchA", "transBatchB"):
        n.require(not n.integer(name, 0), Reason.ATTRIBUTE, f"{name} is 1; only 0 is supported")
    n.require(
        a.rank > 1 and b.rank > 1, Reason.RANK, f"{a.name} or {b.name} is a vector; use matrices"
    )
    adjoint = {"adj_x": bool(n.integer("transA", 0)), "adj_y": bool(n.integer("transB", 0))}
    if alpha == 1 or b.constant is not None:
        yield from product(n, a, scaled_constant(n, b, alpha), y, **adjoint)
        return
    total = n.temp(y)
    yield from product(n, a, b, total, **adjoint)
    yield apply(spec.MUL, total, n.scalar(alpha, y), out=y)


@op("SkipLayerNormalization", since=1, domain=MICROSOFT_DOMAIN)
@widened
def skip_layer_normalization(n: Node) -> Iterator[Call]:
    """LayerNormalization along the last axis of input + skip + bias, a sum that is output 3."""
    total = yield from _skipped(n, 4)
    shift = n.input(3) if n.has(3) else None
    norm = Norm(standardized, total.rank - 1, n.real("epsilon", 1e-12), n.input(2), shift)
    found = yield from normalize(n, total, norm, n.output())
    yield from write_statistics(n, found)


@op("SkipSimplifiedLayerNormalization", since=1, domain=MICROSOFT_DOMAIN)
@widened
def skip_simplified_layer_normalization(n: Node) -> Iterator[Call]:
    """RMSNormalization along the last axis of input + skip + bias, a sum that is output 3."""
    total = yield from _skipped(n, 3)
    norm = Norm(scaled, total.rank - 1, n.real("epsilon", 1e-12), n.input(2))
    found = yield from normalize(n, total, norm, n.output())
    yield from write_statistics(n, found)


def _skipped(n: Node, bias: int) -> Computed:
    """Return input 0 + input 1 + input `bias` (if given); also emit it as output 3 if present."""
    last = n.output(3) if n.has_output(3) else n.temp(n.input(0))
    total = n.temp(last) if n.has(bias) else last
    yield apply(spec.ADD, n.input(0), n.input(1), out=total)
    if n.has(bias):
        yield apply(spec.ADD, total, n.input(bias), out=last)
    return last
