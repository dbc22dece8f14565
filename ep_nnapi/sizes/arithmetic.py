"""Folded arithmetic on sizes: the results of shape arithmetic keep the sizes that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.sizes import at_present, is_symbolic, objects, plain

_INTEGERS = (DType.INT64, DType.INT32)
_FOLDED = (*_INTEGERS, DType.BOOL)
Folding: TypeAlias = Callable[[GraphNode, Sequence[Array]], Sequence[Array]]


def sized_constants(node: GraphNode, folded: Sequence[Array]) -> list[Constant]:
    """The constants of a node's folded outputs, with sizes where its inputs have them.

    Where that cannot be, its inputs' sizes become the numbers that they are.
    """
    plainly = [Constant.of(array) for array in folded]
    read = _read(node)
    if not is_symbolic(read):
        return plainly
    step = _STEPS.get(node.op_type)
    try:
        found = [] if step is None else step(node, [_objects(v) for v in node.inputs])
    except (AttributeError, IndexError, TypeError, ValueError):
        found = []
    if len(found) == len(folded) and all(map(_equal, found, folded)):
        types = [DType.of(array.dtype) for array in folded]
        return [
            Constant.of_sizes(f.reshape(-1).tolist(), f.shape, t) if t in _INTEGERS else c
            for f, t, c in zip(found, types, plainly, strict=True)
        ]
    plain(read)
    return plainly


def is_computed(node: GraphNode, outputs: Sequence[Value]) -> bool:
    """True if floats depend on sizes: no constant has them, so they are computed in a run."""
    return any(v.dtype not in _FOLDED for v in outputs) and is_symbolic(_read(node))


def _read(node: GraphNode) -> list[int]:
    """What the node reads of sizes."""
    given = [v for v in node.inputs if v is not None]
    if node.op_type in _STEPS_ON_SHAPES:
        return [d for v in given[:1] for d in v.dims or () if isinstance(d, int)]
    return [n for v in given if v.constant is not None for n in v.constant.numbers]


def _equal(found: Array, folded: Array) -> bool:
    """True if the sizes are the folded numbers now."""
    if found.shape != folded.shape:
        return False
    numbers = [at_present(n) for n in found.reshape(-1).tolist()]
    return bool(numbers == folded.reshape(-1).tolist())


def _objects(value: Value | None) -> Array:
    """An input's elements as objects; of an input without, its sizes."""
    if value is None or (value.constant is None and value.dims is None):
        return np.array(None, object)
    constant = value.constant
    if constant is None:
        return objects(value.dims or ())
    if constant.numbers:
        return objects(constant.numbers).reshape(constant.shape)
    return constant.load().astype(object)


def _elementwise(compute: Callable[..., Any]) -> Folding:
    def step(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
        arrays = np.broadcast_arrays(*given)
        found = [compute(*numbers) for numbers in zip(*(a.flat for a in arrays), strict=True)]
        return [objects(found).reshape(arrays[0].shape)]

    return step


def _quotient(a: int, b: int) -> int:
    """The quotient rounded towards 0, as ONNX's Div of integers."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _shape(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    dims = node.inputs[0].dims if node.inputs[0] is not None else ()
    sizes = objects(dims or ())
    return [sizes[slice(node.attributes.get("start", 0), node.attributes.get("end"))]]


def _scalar(number: object) -> Array:
    found = np.empty((), object)
    found[()] = number
    return found


def _axis(node: GraphNode) -> int:
    axis = node.attributes.get("axis", 0)
    return axis if isinstance(axis, int) else 0


def _gather(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    found = np.take(given[0], _plain(given[1]), axis=_axis(node))
    return [found if isinstance(found, np.ndarray) else _scalar(found)]


def _plain(array: Array) -> Array:
    """Numbers that are no sizes, as of axes; sizes become the numbers that they are."""
    return np.array(plain(array.reshape(-1).tolist()), np.int64).reshape(array.shape)


def _slice(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    x, *by_input = given
    names = (n for n in ("starts", "ends", "axes") if n in node.attributes)  # before opset 10
    starts, ends, *rest = by_input or (np.array(node.attributes[n]) for n in names)
    axes = _plain(rest[0]).tolist() if rest and rest[0].shape else range(len(starts))
    steps = _plain(rest[1]).tolist() if len(rest) > 1 else [1] * len(starts)
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(_plain(starts), _plain(ends), axes, steps, strict=True):
        cut[axis] = slice(int(start), int(end), step)
    return [x[tuple(cut)]]


def _split(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    axis, count = _axis(node), len(node.outputs)
    if len(given) > 1:
        return np.split(given[0], np.cumsum(_plain(given[1]))[:-1], axis)
    return np.array_split(given[0], count, axis)


def _squeeze(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    axes = _axes(node, given)
    return [np.squeeze(given[0], None if axes is None else tuple(axes))]


def _axes(node: GraphNode, given: Sequence[Array]) -> Sequence[int] | None:
    if len(given) > 1:
        found: list[int] = _plain(given[1]).reshape(-1).tolist()
        return found
    axes = node.attributes.get("axes")
    return [a for a in axes if isinstance(a, int)] if isinstance(axes, tuple) else None


def _product(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    kept = bool(node.attributes.get("keepdims", 1))
    axes = _axes(node, given)
    found = np.prod(given[0], axis=None if axes is None else tuple(axes), keepdims=kept)
    return [found if isinstance(found, np.ndarray) else _scalar(found)]


def _range(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    """A range of as many numbers for all sizes, as the position of one more token is."""
    start, limit, delta = (array.item() for array in given)
    (count,) = plain([-((start - limit) // delta)])
    return [objects(start + i * delta for i in range(count))]


def _expand(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    to = np.broadcast_shapes(given[0].shape, tuple(_plain(given[1]).tolist()))
    return [np.broadcast_to(given[0], to)]


def _transpose(node: GraphNode, given: Sequence[Array]) -> Sequence[Array]:
    perm = node.attributes.get("perm")
    axes = [int(axis) for axis in perm] if isinstance(perm, tuple) else None
    return [given[0].transpose(axes)]


_STEPS_ON_SHAPES: Mapping[str, Folding] = {
    "Shape": _shape,
    "Size": lambda node, _: [_scalar(prod(v.shape if v is not None else ())) for v in node.inputs],
}
_STEPS: Mapping[str, Folding] = {
    **_STEPS_ON_SHAPES,
    **dict.fromkeys(("Cast", "Identity"), lambda _, given: given[:1]),
    "Abs": _elementwise(abs),
    "Add": _elementwise(lambda a, b: a + b),
    "Concat": lambda node, given: [np.concatenate(given, axis=_axis(node))],
    "Div": _elementwise(_quotient),
    "Equal": _elementwise(lambda a, b: a == b),
    "Expand": _expand,
    "Gather": _gather,
    "Greater": _elementwise(lambda a, b: a > b),
    "GreaterOrEqual": _elementwise(lambda a, b: a >= b),
    "Less": _elementwise(lambda a, b: a < b),
    "LessOrEqual": _elementwise(lambda a, b: a <= b),
    "Max": _elementwise(max),
    "Min": _elementwise(min),
    "Mod": _elementwise(lambda a, b: a % b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Neg": _elementwise(lambda a: -a),
    "Range": _range,
    "ReduceProd": _product,
    "Reshape": lambda _, given: [given[0].reshape(_plain(given[1]).tolist())],
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": _elementwise(lambda a, b: a - b),
    "Tile": lambda _, given: [np.tile(given[0], _plain(given[1]).tolist())],
    "Transpose": _transpose,
    "Unsqueeze": lambda node, given: [np.expand_dims(given[0], tuple(_axes(node, given) or ()))],
    "Where": _elementwise(lambda c, a, b: a if c else b),
}
"""How operators compute with arrays of objects, as numpy has it."""
