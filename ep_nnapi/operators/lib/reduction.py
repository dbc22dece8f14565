"""Lowering steps for reductions, and for normalization by mean and variance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.value import MAX_RANK, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import is_one
from ep_nnapi.operators.lib.movement import expanded, runs
from ep_nnapi.operators.lib.node import Computed, Node, int32


def reduce(
    n: Node, row: OperationSpec, x: Value, axes: Collection[int], y: Value, *, keep: bool
) -> Iterator[Call]:
    """Emit `y` = `x` reduced by `row` along `axes`, which remain as size 1 if `keep`.

    Beyond rank 4, adjacent axes are merged; if more than 4 remain, they are reduced one by one.
    """
    if not axes:
        yield from n.reshape(x, y)
    elif x.rank <= MAX_RANK:
        yield from _reduction(n, row, x, sorted(axes), y, keep=keep)
    else:
        kept = [i for i, size in enumerate(x.shape) if not is_one(size)]
        groups = [[kept[i] for i in g] for g in runs([i in axes for i in kept])]
        sizes = [prod(x.shape[i] for i in g) for g in groups]
        yield from _by_groups(n, row, x, sizes, [g[0] in axes for g in groups], y)


def _reduction(
    n: Node, row: OperationSpec, x: Value, axes: Sequence[int], y: Value, *, keep: bool
) -> Iterator[Call]:
    """Emit `y` = `x` reduced by `row`; Android 9's kernel of MEAN does not remove all axes."""
    if row != spec.MEAN:
        yield apply(row, x, axes=int32(axes), keep_dims=keep, out=y)
    elif keep or len(axes) < x.rank or n.target.kernel_level > 2:
        yield apply(row, x, axes=int32(axes), keep_dims=int(keep), out=y)  # an INT32 here alone
    else:
        one = n.temp(y, (1,) * x.rank)
        yield apply(row, x, axes=int32(axes), keep_dims=1, out=one)
        yield from n.reshape(one, y)


def _by_groups(
    n: Node, row: OperationSpec, x: Value, sizes: list[int], gone: list[bool], y: Value
) -> Iterator[Call]:
    while len(sizes) > MAX_RANK and any(gone):
        at = gone.index(True)
        x = yield from n.reshaped(x, (prod(sizes[:at]), sizes[at], prod(sizes[at + 1 :])))
        out = n.temp(x, (prod(sizes[:at]), prod(sizes[at + 1 :])))
        yield from _reduction(n, row, x, [1], out, keep=False)
        x = out
        del sizes[at], gone[at]
    if any(gone):
        x = yield from n.reshaped(x, sizes)
        stay = [s for s, g in zip(sizes, gone, strict=True) if not g]
        out = n.temp(x, stay or (1,))
        yield from _reduction(n, row, x, [i for i, g in enumerate(gone) if g], out, keep=False)
        x = out
    yield from n.reshape(x, y)


def reduced(n: Node, row: OperationSpec, x: Value, axes: Collection[int]) -> Computed:
    """Return `x` reduced by `row` along `axes`, which remain as size 1."""
    out = n.temp(x, [1 if i in axes else size for i, size in enumerate(x.shape)])
    yield from reduce(n, row, x, axes, out, keep=True)
    return out


@frozen
class Standard:
    """A normalized tensor.

    value     the tensor with mean square 1 along the axes
    inverse   the factor it was multiplied by, 1 / sqrt(mean square + epsilon)
    mean      the mean that was subtracted first; None if none was
    """

    value: Value
    inverse: Value
    mean: Value | None = None


def scaled(
    n: Node, x: Value, axes: Collection[int], epsilon: float
) -> Generator[Call, None, Standard]:
    """Return `x` of rank 1 to 4 divided by sqrt(mean square + epsilon) along `axes`."""
    square = yield from n.compute(spec.MUL, x, x)
    mean = yield from reduced(n, spec.MEAN, square, axes)
    more = yield from n.compute(spec.ADD, mean, n.scalar(epsilon, x))
    inverse = yield from n.compute(spec.RSQRT, more)
    return Standard((yield from n.compute(spec.MUL, x, inverse)), inverse)


def standardized(
    n: Node, x: Value, axes: Collection[int], epsilon: float
) -> Generator[Call, None, Standard]:
    """Return `x` of rank 1 to 4 as (x - mean) / sqrt(variance + epsilon) along `axes`."""
    mean = yield from reduced(n, spec.MEAN, x, axes)
    centred = yield from n.compute(spec.SUB, x, mean)
    found = yield from scaled(n, centred, axes, epsilon)
    return replace(found, mean=mean)


Normalize: TypeAlias = Callable[
    [Node, Value, Collection[int], float], Generator[Call, None, Standard]
]


@frozen
class Norm:
    """A normalization over all axes from `axis` on by function `by`, then `scale` and `shift`."""

    by: Normalize
    axis: int
    epsilon: float
    scale: Value
    shift: Value | None = None


def normalize(n: Node, x: Value, norm: Norm, y: Value) -> Generator[Call, None, Standard]:
    """Emit `y` = `x` normalized, times scale, plus shift; return the result before scale and shift.

    Beyond rank 4 the tensor is reshaped to two axes, split at `norm.axis`.
    """
    axis, shape = norm.axis, x.shape
    axes = range(axis, x.rank)
    if x.rank > MAX_RANK:
        shape, axes = (prod(x.shape[:axis]), prod(x.shape[axis:])), range(1, 2)
    seen = yield from n.reshaped(x, shape)
    found = yield from norm.by(n, seen, axes, norm.epsilon)
    factor = yield from _from_axis(n, norm.scale, x, axis)
    if norm.shift is None:
        yield from n.compute_as(y, shape, spec.MUL, found.value, factor)
    else:
        product = yield from n.compute(spec.MUL, found.value, factor, shape=shape)
        shift = yield from _from_axis(n, norm.shift, x, axis)
        yield from n.compute_as(y, shape, spec.ADD, product, shift)
    return found


def write_statistics(n: Node, found: Standard, inverse: int = 2) -> Iterator[Call]:
    """Emit those of output 1, the mean if there is one, and output `inverse` that the node has."""
    for i, value in ((1, found.mean), (inverse, found.inverse)):
        if value is not None and n.has_output(i):
            yield from n.reshape(value, n.output(i))


def _from_axis(n: Node, param: Value, x: Value, axis: int) -> Computed:
    """Return scale or shift in a shape that broadcasts; flattened if `x` has rank above 4."""
    most = x.rank if x.rank <= MAX_RANK else x.rank - axis
    n.require(
        param.rank <= most,
        Reason.SHAPE,
        f"{param.name} has rank {param.rank}, for {x.name} of rank {x.rank} normalized from axis "
        f"{axis} on it has up to {most}; reshape it",
    )
    sizes = zip(param.shape[::-1], x.shape[::-1], strict=False)
    detail = f"{param.name} has shape {list(param.shape)}, {x.name} {list(x.shape)}"
    n.require(all(size in (1, whole) for size, whole in sizes), Reason.SHAPE, detail)
    if x.rank <= MAX_RANK:
        return param
    wide = yield from expanded(n, param, x.shape[axis:])
    return (yield from n.reshaped(wide, (prod(x.shape[axis:]),)))
