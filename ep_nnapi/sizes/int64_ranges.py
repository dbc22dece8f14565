"""Range analysis of INT64 values, to find those whose elements fit INT32.

NNAPI has no 64-bit integers. A model's INT64 inputs may have any value. But an index is less than a
size, and a few sums and products of indices stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.sizes import Size, is_symbolic

Interval: TypeAlias = tuple[int, int]
"""The minimum and the maximum that an element may have."""
_Intervals: TypeAlias = Sequence[Interval]
NO_RANGES: Mapping[str, Interval] = MappingProxyType({})

_MAX_READ = 4096
"""Maximum elements of constants that are read for their range."""
_MAX_DIM = 2**31 - 1
"""The maximum elements along a dimension, or in total, that INT32 can hold."""
_INT32 = (-(2**31), 2**31 - 1)
_TYPE_INTERVALS: Mapping[DType, Interval] = {
    DType.BOOL: (0, 1),
    **{
        kind: (int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max))
        for kind in (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.INT32, DType.UINT32)
    },
}

_INDEX_OUTPUTS = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
"""Operators that return indices, with the position of that output."""
_SIZE_OPERATORS = frozenset(("Shape", "Size"))
_SELECTORS: Mapping[str, slice] = {
    **dict.fromkeys(("Concat", "Max", "Min"), slice(None)),
    **dict.fromkeys(
        (
            *("Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
            *("ReduceMax", "ReduceMin", "Reshape", "Slice", "Split", "Squeeze", "Tile", "TopK"),
            *("Transpose", "Unsqueeze"),
        ),
        slice(0, 1),
    ),
    "Range": slice(0, 2),
    "Trilu": slice(0, 1),
    "Where": slice(1, 3),
}
"""Operators whose results are elements of these inputs."""
_ARITHMETIC: Mapping[str, Callable[[Interval, Interval], _Intervals]] = {
    "Add": lambda a, b: [(a[0] + b[0], a[1] + b[1])],
    "Sub": lambda a, b: [(a[0] - b[1], a[1] - b[0])],
    "Mul": lambda a, b: [(x * y, x * y) for x in a for y in b],
    "Div": lambda a, b: [_symmetric(a)],
    "Mod": lambda a, b: [_symmetric(b)],
}


def mark_int32_ranges(graph: Graph, stated: Mapping[str, Interval] = NO_RANGES) -> Graph:
    """Returns the graph with `fits_int32` set on the INT64 values whose elements all fit INT32.

    stated  ranges of inputs of the graph, which the caller knows
    """
    if not any(v is not None and v.dtype is DType.INT64 for n in graph.nodes for v in n.outputs):
        return graph
    found = _intervals(graph, stated)

    def marked(value: Value | None) -> Value | None:
        if value is None or value.dtype is not DType.INT64:
            return value
        return replace(value, fits_int32=value.fits_int32 or _known_to_fit(value, found))

    def with_marks(node: GraphNode) -> GraphNode:
        ins, outs = (tuple(marked(v) for v in values) for values in (node.inputs, node.outputs))
        return replace(node, inputs=ins, outputs=outs)

    return replace(graph, nodes=tuple(with_marks(n) for n in graph.nodes))


def values_fitting_int32(graph: Graph, stated: Mapping[str, Interval]) -> frozenset[str]:
    """Returns the names of the INT64 values whose elements all fit INT32.

    stated  ranges of inputs of the graph, which the caller knows
    """
    found = _intervals(graph, stated)
    values = (v for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None)
    return frozenset(v.name for v in values if v.dtype is DType.INT64 and _known_to_fit(v, found))


def narrow_to_int32(node: GraphNode) -> GraphNode:
    """Converts the node's INT64 values to INT32, if all fit and not all are constants."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype is DType.INT64]
    stored = all(v.constant is not None and not v.constant.numbers for v in values)
    if stored or not all(v.fits_int32 for v in values):
        return node

    def narrow(value: Value | None) -> Value | None:
        if value is None or value.dtype is not DType.INT64:
            return value
        constant = value.constant and value.constant.cast(DType.INT32)
        return replace(value, dtype=DType.INT32, constant=constant)

    ins, outs = (tuple(narrow(v) for v in values) for values in (node.inputs, node.outputs))
    return replace(node, inputs=ins, outputs=outs)


def _intervals(graph: Graph, stated: Mapping[str, Interval]) -> dict[str, Interval]:
    """The known ranges of the graph's INT64 values by name, constants excepted."""
    found = dict(stated)
    for node in graph.nodes:
        if not node.domain and not node.parts:
            found.update(_output_intervals(node, found))
    return found


def _known_to_fit(value: Value, found: Mapping[str, Interval]) -> bool:
    interval = _interval(value, found)
    return interval is not None and _fits_int32(interval)


def _output_intervals(
    node: GraphNode, found: Mapping[str, Interval]
) -> Iterable[tuple[str, Interval]]:
    """Yields the known ranges of the node's INT64 outputs, by name."""
    for i, output in enumerate(node.outputs):
        if output is not None and output.dtype is DType.INT64:
            interval = _output_interval(node, i, found)
            if interval is not None:
                yield output.name, interval


def _output_interval(
    node: GraphNode, output: int, found: Mapping[str, Interval]
) -> Interval | None:
    kind = node.op_type
    if kind in _SIZE_OPERATORS:
        return 0, _MAX_DIM
    if _INDEX_OUTPUTS.get(kind) == output:
        return 0, _largest_dim(node) - 1
    given = [
        _interval(v, found) for v in node.inputs[_SELECTORS.get(kind, slice(None))] if v is not None
    ]
    known = [s for s in given if s is not None]
    if not known or len(known) < len(given):
        return None
    if kind in _SELECTORS:
        return _hull(known)
    if kind in _ARITHMETIC and len(known) == 2:
        return _hull(_ARITHMETIC[kind](known[0], known[1]))
    return None


def _largest_dim(node: GraphNode) -> int:
    """The largest dimension of the first input, `_MAX_DIM` if unknown."""
    x = node.inputs[0]
    dims = x.dims if x is not None and x.dims is not None else (None,)
    return _greatest([d if isinstance(d, int) else _MAX_DIM for d in (*dims, 1)])


def _interval(value: Value, found: Mapping[str, Interval]) -> Interval | None:
    """The range of an integer value, None if unknown."""
    if value.constant is not None and value.constant.numbers:
        return _hull([(number, number) for number in value.constant.numbers])
    if value.constant is not None and value.dtype.readable:
        if prod(value.constant.shape) > _MAX_READ:
            return None
        array = value.constant.array
        if array.size and np.issubdtype(array.dtype, np.integer):
            return int(array.min()), int(array.max())
    if value.fits_int32:
        return found.get(value.name, _INT32)
    return found.get(value.name, _TYPE_INTERVALS.get(value.dtype))


def _hull(intervals: _Intervals) -> Interval:
    return -_greatest([-s[0] for s in intervals]), _greatest([s[1] for s in intervals])


def _greatest(numbers: Sequence[int]) -> int:
    """The greatest number; where sizes are among them, no less, without comparing them."""
    if not is_symbolic(numbers):
        return max(numbers)
    most = max((n for n in numbers if not isinstance(n, Size)), default=0)
    sizes = {n.expression: n for n in numbers if isinstance(n, Size)}.values()
    return sum((n for n in sizes if n >= 0), start=max(most, 0))


def _symmetric(interval: Interval) -> Interval:
    most = max(abs(interval[0]), abs(interval[1]))
    return -most, most


def _fits_int32(interval: Interval) -> bool:
    return _INT32[0] <= interval[0] and interval[1] <= _INT32[1]
