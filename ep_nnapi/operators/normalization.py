"""Normalization operators: softmax, batch, instance, group, layer, RMS, LRN, Lp, mean-variance."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.arguments import nhwc
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.convolution import images, require_permute
from ep_nnapi.operators.lib.movement import sizes_around
from ep_nnapi.operators.lib.node import Computed, Node, each, op, widened
from ep_nnapi.operators.lib.reduction import (
    Norm,
    Normalize,
    normalize,
    reduced,
    scaled,
    standardized,
    write_statistics,
)


@op("Softmax", since=1, function=True)
def softmax_1(n: Node) -> Iterator[Call]:
    """Normalizes all from `axis` (default 1) on as one row."""
    x, axis = n.input(0), n.axis(default=1)
    if prod(x.shape[axis + 1 :]) == 1:
        yield from _softmax(n, x, axis, n.output())
        return
    row = (prod(x.shape[:axis]), prod(x.shape[axis:]))
    rows = yield from n.reshaped(x, row)
    yield from n.compute_as(n.output(), row, spec.SOFTMAX, rows, beta=1.0)


@op("Softmax", since=13)
def softmax_13(n: Node) -> Iterator[Call]:
    """Normalizes along the one `axis` (default: the last)."""
    yield from _softmax(n, n.input(0), n.axis(default=-1), n.output())


def _softmax(n: Node, x: Value, axis: int, y: Value) -> Iterator[Call]:
    """Emit SOFTMAX; where the level has no axis operand, on an image with `axis` as channels."""
    direct = apply(spec.SOFTMAX, x, beta=1.0, axis=None if axis == x.rank - 1 else axis, out=y)
    if x.rank <= MAX_RANK and n.supports(direct):
        yield direct
        return
    before, size, after = sizes_around(x.shape, axis)
    shape = (before, size) if after == 1 else (before, size, 1, after)
    seen = yield from n.reshaped(x, shape)
    if after == 1:
        yield from n.compute_as(y, shape, spec.SOFTMAX, seen, beta=1.0)
        return
    require_permute(n, seen)
    out = n.output_or_temp(y, shape)
    yield apply(spec.SOFTMAX, nhwc(seen), beta=1.0, out=nhwc(out))
    yield from n.write_output(out, y)


@op("LogSoftmax", since=1, function=True)
def log_softmax_1(n: Node) -> Iterator[Call]:
    """The logarithm of Softmax-1: all from `axis` (default 1) on is one row."""
    x, axis = n.input(0), n.axis(default=1)
    yield from _log_softmax(n, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@op("LogSoftmax", since=13)
def log_softmax_13(n: Node) -> Iterator[Call]:
    """The logarithm of Softmax-13, along the one `axis` (default: the last)."""
    x, axis = n.input(0), n.axis(default=-1)
    if x.rank <= MAX_RANK:
        yield apply(spec.LOG_SOFTMAX, x, beta=1.0, axis=axis, out=n.output())
    else:
        yield from _log_softmax(n, x, sizes_around(x.shape, axis))


def _log_softmax(n: Node, x: Value, shape: tuple[int, ...]) -> Iterator[Call]:
    """Emit LOG_SOFTMAX along the second axis of `x` reshaped to `shape`."""
    seen = yield from n.reshaped(x, shape)
    yield from n.compute_as(n.output(), shape, spec.LOG_SOFTMAX, seen, beta=1.0, axis=1)


@op("BatchNormalization", since=7)
def batch_normalization(n: Node) -> Iterator[Call]:
    """Each channel times a factor, plus a term; both computed beforehand where they are constant.

    x [N, C, ...]; scale, B, mean and var [C] (`spatial` 0, opset 7: [C, ...])
    """
    x, y = n.input(0), n.output()
    trains = n.integer("training_mode", 0) or any(n.has_output(i) for i in range(1, 5))
    n.require(not trains, Reason.ATTRIBUTE, "it is in training mode; NNAPI supports only inference")
    shape = (*x.shape[:2], prod(x.shape[2:])) if x.rank > MAX_RANK else x.shape
    stored = n.input(3).shape
    for index in range(1, 5):
        given = n.input(index)
        detail = f"{given.name} has shape {list(given.shape)} for {x.name} of shape {list(x.shape)}"
        n.require(given.shape == x.shape[1 : 1 + len(stored)], Reason.SHAPE, detail)
    factor, term = yield from _folded(n, (*stored, *[1] * (len(shape) - 1 - len(stored))))
    seen = yield from n.reshaped(x, shape)
    product = yield from n.compute(spec.MUL, seen, factor, shape=shape)
    yield from n.compute_as(y, shape, spec.ADD, product, term)


def _folded(n: Node, shape: Sequence[int]) -> Generator[Call, None, tuple[Value, Value]]:
    """Return scale / sqrt(var + epsilon) and B - mean times that, reshaped to `shape`."""
    x, epsilon = n.input(0), n.real("epsilon", 1e-5)
    scale, shift, mean, var = (n.input(i) for i in range(1, 5))
    known = [v.constant for v in (scale, shift, mean, var) if v.constant is not None]
    if len(known) == 4:
        factor = Constant(tuple(shape), x.dtype, lambda: _factor(known, epsilon, shape, x.dtype))
        term = Constant(tuple(shape), x.dtype, lambda: _term(known, epsilon, shape, x.dtype))
        return n.value("factor", factor), n.value("term", term)
    more = yield from n.compute(spec.ADD, var, n.scalar(epsilon, var))
    root = yield from n.compute(spec.SQRT, more)
    ratio = yield from n.compute(spec.DIV, scale, root)
    product = yield from n.compute(spec.MUL, mean, ratio)
    rest = yield from n.compute(spec.SUB, shift, product)
    first, second = yield from each(n.reshaped(v, shape) for v in (ratio, rest))
    return first, second


def _factor(known: Sequence[Constant], epsilon: float, shape: Sequence[int], dtype: DType) -> Array:
    scale, _, _, var = (c.array.astype(np.float64) for c in known)
    return (scale / np.sqrt(var + epsilon)).reshape(shape).astype(dtype.numpy)


def _term(known: Sequence[Constant], epsilon: float, shape: Sequence[int], dtype: DType) -> Array:
    scale, shift, mean, var = (c.array.astype(np.float64) for c in known)
    return (shift - mean * scale / np.sqrt(var + epsilon)).reshape(shape).astype(dtype.numpy)


@op("InstanceNormalization", since=6, function=True)
@widened
def instance_normalization(n: Node) -> Iterator[Call]:
    """Each image's channel to mean B and deviation `scale`; NNAPI's takes only scalars for these.

    x [N, C, ...], scale and B [C]
    """
    x = n.input(0)
    _require_channels(n)
    shape = x.shape if x.rank == 4 else (*x.shape[:2], 1, prod(x.shape[2:]))
    seen = yield from n.reshaped(x, shape)
    standard = n.temp(x, shape)
    yield apply(
        spec.INSTANCE_NORMALIZATION,
        images(n, seen),
        gamma=1.0,
        beta=0.0,
        epsilon=n.real("epsilon", 1e-5),
        layout=n.target.nchw,
        out=images(n, standard),
    )
    yield from _scaled_and_shifted(n, standard)


def _require_channels(n: Node) -> None:
    """Raise Reject unless x is [N, C, ...], and inputs 1 and 2 are [C]."""
    x = n.input(0)
    n.require(x.rank >= 2, Reason.RANK, f"{x.name} has rank {x.rank} and no channels")
    for value in (n.input(1), n.input(2)):
        detail = f"{value.name} has shape {list(value.shape)} for {x.shape[1]} channels"
        n.require(value.shape == (x.shape[1],), Reason.SHAPE, detail)


def _scaled_and_shifted(n: Node, x: Value) -> Iterator[Call]:
    """Emit the output: `x` [N, C, ...] times input 1 plus input 2, [C] each."""
    one = (n.input(1).size, *[1] * (x.rank - 2))
    factor, term = yield from each(n.reshaped(n.input(i), one) for i in (1, 2))
    product = yield from n.compute(spec.MUL, x, factor, shape=x.shape)
    yield from n.compute_as(n.output(), x.shape, spec.ADD, product, term)


@op("GroupNormalization", since=18)
@widened
def group_normalization_18(n: Node) -> Iterator[Call]:
    """Each group of channels to mean `bias` and deviation `scale`, one of each a group.

    x [N, C, ...], scale and bias [num_groups]
    """
    yield from _scaled_and_shifted(n, (yield from _grouped(n)))


@op("GroupNormalization", since=21)
@widened
def group_normalization_21(n: Node) -> Iterator[Call]:
    """Each group of channels to mean 0 and deviation 1, times `scale` plus `bias` by channel.

    x [N, C, ...], scale and bias [C]
    """
    x = n.input(0)
    _require_channels(n)
    standard = yield from _grouped(n)
    shape = x.shape if x.rank == 4 else (*x.shape[:2], 1, prod(x.shape[2:]))
    yield from _scaled_and_shifted(n, (yield from n.reshaped(standard, shape)))


def _grouped(n: Node) -> Computed:
    """Return x as [N, num_groups, elements of the group], each group to mean 0 and deviation 1."""
    x, groups = n.input(0), n.integer("num_groups")
    n.require(
        groups > 0 and x.rank >= 2 and x.shape[1] % groups == 0,
        Reason.SHAPE,
        f"num_groups is {groups}, which does not divide the channels of {x.name}, {list(x.shape)}",
    )
    rows = yield from n.reshaped(x, (x.shape[0], groups, x.size // groups // x.shape[0]))
    found = yield from standardized(n, rows, [2], n.real("epsilon", 1e-5))
    return found.value


@op("LayerNormalization", since=1, function=True)
@widened
def layer_normalization(n: Node) -> Iterator[Call]:
    """All from `axis` on to mean 0 and deviation 1, times Scale plus B.

    outputs y, mean and inverse deviation, any of which may be omitted; version 1 is ONNX Runtime's
    """
    shift = n.input(2) if n.has(2) else None
    yield from _normalized(n, standardized, shift)


@op("RMSNormalization", since=23)
@widened
def rms_normalization(n: Node) -> Iterator[Call]:
    """All from `axis` on divided by its root mean square, times scale."""
    yield from _normalized(n, scaled)


@op("SimplifiedLayerNormalization", since=1)
@widened
def simplified_layer_normalization(n: Node) -> Iterator[Call]:
    """RMSNormalization as ONNX Runtime fuses it; output 1 is the inverse root mean square."""
    yield from _normalized(n, scaled, inverse=1)


def _normalized(
    n: Node, by: Normalize, shift: Value | None = None, inverse: int = 2
) -> Iterator[Call]:
    norm = Norm(by, n.axis(default=-1), n.real("epsilon", 1e-5), n.input(1), shift)
    found = yield from normalize(n, n.input(0), norm, n.output())
    yield from write_statistics(n, found, inverse)


@op("LRN", since=1)
def lrn(n: Node) -> Iterator[Call]:
    """Each number divided by a power of the squares of its neighbours in other channels.

    x [N, C, H, W]; an even `size` is rejected: NNAPI's window is symmetric around its centre
    """
    x, y, size = n.input(0), n.output(), n.integer("size")
    n.require(
        size % 2 == 1, Reason.ATTRIBUTE, f"size is {size}; NNAPI's radius gives only odd sizes"
    )
    n.require(x.rank == 4, Reason.RANK, f"{x.name} has rank {x.rank}; images have 4")
    yield apply(
        spec.LOCAL_RESPONSE_NORMALIZATION,
        images(n, x),
        radius=size // 2,
        bias=n.real("bias", 1.0),
        alpha=n.real("alpha", 1e-4) / size,
        beta=n.real("beta", 0.75),
        axis=1 if n.target.nchw else None,
        out=images(n, y),
    )


@op("LpNormalization", since=1)
@widened
def lp_normalization(n: Node) -> Iterator[Call]:
    """X divided by its norm along `axis`; 0 where the norm is 0.

    NNAPI's L2_NORMALIZATION is not used, as it divides vectors shorter than 1e-6 by 1e-6.
    """
    x, y, axis, p = n.input(0), n.output(), n.axis(default=-1), n.integer("p", 2)
    n.require(p in (1, 2), Reason.ATTRIBUTE, f"p is {p}; ONNX has 1 and 2")
    shape, at = (x.shape, axis) if x.rank <= MAX_RANK else (sizes_around(x.shape, axis), 1)
    seen = yield from n.reshaped(x, shape)
    if p == 1:
        parts = yield from n.absolute_of(seen)
        norm = yield from reduced(n, spec.REDUCE_SUM, parts, [at])
    else:
        parts = yield from n.compute(spec.MUL, seen, seen)
        norm = yield from n.compute(
            spec.SQRT, (yield from reduced(n, spec.REDUCE_SUM, parts, [at]))
        )
    none = yield from n.compute(spec.EQUAL, norm, n.scalar(0, x), dtype=DType.BOOL)
    huge = yield from n.full(float(n.limits(x).max), norm.shape, x.dtype)
    size = yield from n.compute(spec.SELECT, none, huge, norm, dtype=x.dtype)
    yield from n.compute_as(y, shape, spec.DIV, seen, size)


@op("MeanVarianceNormalization", since=9)
@widened
def mean_variance_normalization(n: Node) -> Iterator[Call]:
    """Mean 0 and deviation 1 along `axes` (default: all but the channels)."""
    x = n.input(0)
    n.require(x.rank <= MAX_RANK, Reason.RANK, f"{x.name} has rank {x.rank}; NNAPI takes 1-4")
    axes = [n.normalized(a, x.rank) for a in n.integers("axes", (0, 2, 3))]
    mean = yield from reduced(n, spec.MEAN, x, axes)
    centred = yield from n.compute(spec.SUB, x, mean)
    square = yield from n.compute(spec.MUL, centred, centred)
    variance = yield from reduced(n, spec.MEAN, square, axes)
    deviation = yield from n.compute(spec.SQRT, variance)
    more = yield from n.compute(spec.ADD, deviation, n.scalar(1e-9, x))
    yield apply(spec.DIV, centred, more, out=n.output())
