"""Reductions along axes."""

from __future__ import annotations

from functools import partial
from math import prod

from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import axes_of
from ep_nnapi.nnapi.sizes import now
from ep_nnapi.nnapi.spec import BOOL8, DATA, F16, F32, NUMBERS, Q8, Q8S
from ep_nnapi.ort_devices.graph import CONTRIB
from ep_nnapi.ort_devices.operation import Op, row
from ep_nnapi.ort_devices.scope import Perm, Scope, identity

IMAGES = ((4, (1, 2)), (4, (2, 3)))
"""Rank of an image and axes of its pixels, NHWC and NCHW."""

MOST_POOLED = 4096
"""Pixels up to which a mean is a pool, whose kernel adds one pixel after the other: of numbers near
50 it is 2e-6 off at 64 x 64, 2e-5 at 512 x 512, where ReduceMean is 1.4e-6 off and faster."""


def _along(op: Op) -> tuple[tuple[int, ...], Perm]:
    """The reduced axes, and the input's layout to reduce in.

    Without `keep_dims` the axes that remain must have the operand's own order in that layout.
    """
    rank = len(op.shape("input"))
    axes = axes_of(op.ints("axes"), rank)
    layout = op.layout("input")
    left = [axis for axis in layout if axis not in axes]
    if left != sorted(left) and not _keeps(op):
        layout = identity(rank)
    return axes, layout


def _keeps(op: Op) -> bool:
    """True if reduced axes are kept; MEAN has a number for it, which is positive then."""
    return op.number("keep_dims") > 0


def _reduced(op: Op, op_type: str, value: str, axes: tuple[int, ...], layout: Perm) -> str:
    """Add the node; the output has its declared shape, also if no axis remains."""
    stored_axes = sorted(layout.index(axis) for axis in axes)
    keep = _keeps(op)
    found = op.node(op_type, value, op.sizes(stored_axes), keepdims=int(keep))
    if not keep and len(axes) == len(layout):
        return op.reshape(found, op.shape("output"))
    return found


def _reduction(op_type: str, op: Op, *, stored: bool = False) -> None:
    """Reductions of real numbers, or of stored ones where their order is the same."""
    axes, layout = _along(op)
    value = op.stored("input", layout) if stored else op.real("input", layout)
    found = _reduced(op, op_type, value, axes, layout)
    perm = layout if _keeps(op) else None
    if stored:
        op.keep(found, perm)
    else:
        op.deliver(found, perm)


def mean(op: Op) -> None:
    """Arithmetic mean; of a small image's pixels by a pool, which works on blocks of channels."""
    axes, layout = _along(op)
    keep = _keeps(op)
    value = op.real("input", layout)
    shape = op.shape("input")
    pixels = list(layout[2:4])
    few = now(prod(shape[i] for i in pixels)) <= MOST_POOLED
    if len(layout) < 4 or pixels != list(axes) or not few:
        op.deliver(_reduced(op, "ReduceMean", value, axes, layout), layout if keep else None)
        return
    pooled = op.node("GlobalAveragePool", value)
    if keep:
        op.deliver(pooled, layout)
    else:
        op.deliver(op.reshape(pooled, op.shape("output")))


def mean_quantized(op: Op) -> None:
    """The same of quantized tensors; that of an image's pixels without real numbers."""
    axes, _ = _along(op)
    if (len(op.shape("input")), axes) in IMAGES:
        mean_of_image(op.scope, op.index("input"), op.index("output"), axes)
    else:
        mean(op)


def mean_of_image(scope: Scope, x: int, y: int, axes: tuple[int, ...]) -> None:
    """Define quantized operand `y` as the mean of `x` along these axes of an image."""
    perms = [perm for perm in scope.perms(x) if _pixels(perm, axes) in ([1, 2], [2, 3])]
    perm = (*perms, identity(4))[0]
    pooled = scope.graph.node(
        "QLinearGlobalAveragePool",
        scope.value(x, perm, real=False),
        *scope.quantization(scope.operand(x)),
        *scope.quantization(scope.operand(y)),
        domain=CONTRIB,
        channels_last=int(_pixels(perm, axes) == [1, 2]),
    )
    if scope.rank(y) == len(perm):
        scope.define(y, pooled, perm, real=False)
    else:
        scope.define(y, scope.graph.reshape(pooled, scope.shape(y)), real=False)


def _pixels(perm: Perm, axes: tuple[int, ...]) -> list[int]:
    """Where the axes are in the layout `perm`."""
    return sorted(perm.index(axis) for axis in axes)


def _logical(op_type: str, op: Op) -> None:
    """REDUCE_ALL and REDUCE_ANY, as the least and the greatest of 0 and 1."""
    axes, layout = _along(op)
    numbers = op.node("Cast", op.stored("input", layout), to=TensorProto.INT32)
    found = _reduced(op, op_type, numbers, axes, layout)
    perm = layout if _keeps(op) else None
    op.keep(op.node("Cast", found, to=TensorProto.BOOL), perm)


def _arg(op_type: str, op: Op) -> None:
    """Index of the extreme element, the first of equal ones."""
    axis = op.axis("axis", len(op.shape("input")))
    value = op.stored("input")
    if op.operand("input").type in (Q8, Q8S):
        value = op.node("Cast", value, to=TensorProto.INT32)
    found = op.node(op_type, value, axis=axis, keepdims=0)
    numbers = op.node("Cast", found, to=TensorProto.INT32)
    op.keep(op.reshape(numbers, op.shape("output")))


ROWS = (
    row(spec.MEAN, mean, F32, F16),
    row(spec.MEAN, mean_quantized, Q8, Q8S),
    row(spec.REDUCE_SUM, partial(_reduction, "ReduceSum"), F32, F16),
    row(spec.REDUCE_PROD, partial(_reduction, "ReduceProd"), F32, F16),
    row(spec.REDUCE_MAX, partial(_reduction, "ReduceMax", stored=True), *DATA),
    row(spec.REDUCE_MIN, partial(_reduction, "ReduceMin", stored=True), *DATA),
    row(spec.REDUCE_ALL, partial(_logical, "ReduceMin"), BOOL8),
    row(spec.REDUCE_ANY, partial(_logical, "ReduceMax"), BOOL8),
    row(spec.ARGMAX, partial(_arg, "ArgMax"), *NUMBERS),
    row(spec.ARGMIN, partial(_arg, "ArgMin"), *NUMBERS),
)
