"""Sizes of a node's inputs that its operator requires, beyond ONNX's shape inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil, log, prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.dag import bytes_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Dim, DType
from ep_nnapi.nnapi.validate import MAX_BYTES

Required: TypeAlias = tuple[int, int, int]
"""Position of an input, one of its axes, and the size that other inputs require there."""

_MOST_NUMBERS = 8
"""Maximum elements of a constant that may be a shape."""
_MOST = 20
"""Maximum doublings of a size."""
_MAX_SIZE = 1 << 20
"""Maximum size to propose for a dimension: a minute of sound at 16 kHz."""


def sizes_by_symbol(graph: Graph) -> dict[str, int]:
    """Returns the sizes that nodes require of symbols: of several for one, the first one's.

    Models exported with every dimension symbolic have a symbol for the number of features too,
    which must be that of the weights: no run with another one succeeds.
    """
    found: dict[str, int] = {}
    for node in (part for n in graph.nodes for part in n.originals):
        for index, axis, size in required_sizes(node):
            dim = dim_of(node, index, axis)
            if isinstance(dim, str):
                found.setdefault(dim, size)
    return found


def required_sizes(node: GraphNode) -> Iterator[Required]:
    """Yields the sizes that a node's weights and states require, where these are known."""
    found = None if node.domain else _OPERATORS.get(node.op_type)
    if found is not None:
        yield from ((i, axis, size) for i, axis, size in found(node) if size > 0)


def is_contradicted(node: GraphNode) -> bool:
    """True if the sizes of a node's values contradict each other, where inference sees no error."""
    dims = ((dim_of(node, i, axis), size) for i, axis, size in required_sizes(node))
    return (
        any(isinstance(dim, int) and dim != size for dim, size in dims)
        or any(bytes_of(v) > MAX_BYTES for v in outputs_of(node))
        or any(isinstance(d, int) and d < 0 for v in outputs_of(node) for d in v.dims or ())
        or _reshapes_other_elements(node)
        or _gathers_out_of_range(node)
        or _has_too_large_window(node)
    )


def dim_of(node: GraphNode, index: int, axis: int) -> Dim:
    """Returns a dimension of an input; None where it has none."""
    dims = _dims(node, index)
    return dims[axis] if -len(dims) <= axis < len(dims) else None


def proposed_sizes(node: GraphNode, other: GraphNode, sizes: tuple[int, int]) -> list[int]:
    """Proposes sizes for a dimension, for which the sizes at an inconsistent node would agree.

    node, other  the node as bound to the first and to the second of the two `sizes` of the
                 dimension
    A number of one input that depends on the dimension shall equal one of another input that does
    not: a length shall be that of a table of positions. It is taken to grow linearly, and by a
    power, as elements do that are a product. The nearest sizes come first.
    """
    first, second = sizes
    pairs = list(zip(_numbers(node), _numbers(other), strict=False))
    found: set[int] = set()
    for (i, a), (_, b) in pairs:
        for (j, want), (_, same) in pairs if a != b else ():
            if i != j and want == same:
                found.add(first + ceil((want - a) * (second - first) / (b - a)))
                if min(a, b, want) > 0:
                    steps = log(want / a) / log(b / a)
                    found.add(round(first * (second / first) ** max(-_MOST, min(steps, _MOST))))
    return sorted((s for s in found if 0 < s <= _MAX_SIZE), key=lambda s: abs(log(s / first)))


def _numbers(node: GraphNode) -> list[tuple[int, int]]:
    """The sizes of the inputs, and what constant ones say of shapes, each with its input."""
    found: list[tuple[int, int]] = []
    for i, value in enumerate(node.inputs):
        if value is None or value.dims is None:
            continue
        sizes = [d for d in value.dims if isinstance(d, int)]
        found.extend((i, n) for n in (*sizes, prod(sizes)))
        if value.constant is None or value.dtype is not DType.INT64:
            continue
        if value.folded and node.op_type == "Gather":
            found.append((i, int(value.constant.array.max(initial=0)) + 1))
        elif prod(value.constant.shape) <= _MOST_NUMBERS:
            numbers = value.constant.array.ravel().tolist()
            found.extend((i, n) for n in (*numbers, prod(numbers)))
    return found


def _reshapes_other_elements(node: GraphNode) -> bool:
    """True for a Reshape to another number of elements, which ONNX's inference does not count."""
    if node.domain or node.op_type != "Reshape":
        return False
    ends = [v for v in (node.inputs[0], *outputs_of(node)) if v is not None]
    known = [[d for d in v.dims or () if isinstance(d, int)] for v in ends]
    static = all(
        v.dims is not None and len(k) == len(v.dims) for v, k in zip(ends, known, strict=True)
    )
    return static and len({prod(dims) for dims in known}) > 1


def _gathers_out_of_range(node: GraphNode) -> bool:
    """True for a Gather out of range, as of position embeddings for too long a sequence."""
    if node.domain or node.op_type != "Gather":
        return False
    axis, indices = node.attributes.get("axis", 0), node.inputs[1]
    size = dim_of(node, 0, axis) if isinstance(axis, int) else None
    if not isinstance(size, int) or indices is None or not indices.folded:
        return False
    numbers = indices.constant.array if indices.constant is not None else np.zeros(0)
    return bool(np.any((numbers < -size) | (numbers >= size)))


def _has_too_large_window(node: GraphNode) -> bool:
    """True for a convolution or pool whose window exceeds its padded input.

    With strides, ONNX's shape inference counts one window there. Source: ONNX Conv-22, MaxPool-22.
    """
    explicit = node.attributes.get("auto_pad", "NOTSET") == "NOTSET"
    if node.domain or not explicit or not node.op_type.endswith(("Conv", "Pool")):
        return False
    sizes, weights = _dims(node, 0)[2:], _dims(node, 1)[2:]
    window = integers_of(node, "kernel_shape") or [d for d in weights if isinstance(d, int)]
    dilations = integers_of(node, "dilations") or [1] * len(sizes)
    pads = integers_of(node, "pads") or [0, 0] * len(sizes)
    ends = pads[len(sizes) :]
    return any(
        isinstance(size, int) and size + before + after < (width - 1) * dilation + 1
        for size, width, dilation, before, after in zip(
            sizes, window, dilations, pads, ends, strict=False
        )
    )


def integers_of(node: GraphNode, name: str) -> list[int]:
    """Returns an attribute of one number for each axis; [] where it is something else."""
    given = node.attributes.get(name)
    return [n for n in given if isinstance(n, int)] if isinstance(given, tuple) else []


def _matmul(node: GraphNode) -> Iterator[Required]:
    """Source: ONNX MatMul-1 to MatMul-13."""
    yield 0, -1, _known(node, 1, -2 if len(_dims(node, 1)) > 1 else 0)


def _gemm(node: GraphNode) -> Iterator[Required]:
    """Source: ONNX Gemm-6 to Gemm-13."""
    if len(_dims(node, 1)) == 2:
        axis = 0 if node.attributes.get("transA") else 1
        yield 0, axis, _known(node, 1, 1 if node.attributes.get("transB") else 0)


def _conv(node: GraphNode) -> Iterator[Required]:
    """Source: ONNX Conv-1 to Conv-22."""
    groups = node.attributes.get("group", 1)
    if isinstance(groups, int):
        yield 0, 1, _known(node, 1, 1) * groups


def _recurrent(node: GraphNode) -> Iterator[Required]:
    """Features, states and their batch; source: ONNX RNN-7 to RNN-22, GRU and LSTM likewise."""
    layout = node.attributes.get("layout", 0)
    batch, of_state = (0, 0) if layout else (1, 1)
    yield 0, 2, _known(node, 1, 2)
    for state in (5, 6):
        yield state, 2, _known(node, 2, 2)
        yield 0, batch, _known(node, state, of_state)
        yield state, of_state, _known(node, 0, batch)


_OPERATORS: Mapping[str, Callable[[GraphNode], Iterator[Required]]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}


def _dims(node: GraphNode, index: int) -> tuple[Dim, ...]:
    value = node.inputs[index] if index < len(node.inputs) else None
    return () if value is None or value.dims is None else value.dims


def _known(node: GraphNode, index: int, axis: int) -> int:
    """Returns the known size of an input's axis; 0 where it is none."""
    dim = dim_of(node, index, axis)
    return dim if isinstance(dim, int) else 0
