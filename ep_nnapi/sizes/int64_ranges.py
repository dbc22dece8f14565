"""Range analysis of INT64 values, to find those whose elements fit INT32.

NNAPI has no 64-bit integers. A model's INT64 inputs may have any value. But an index is less than a
size, and a few sums and products of indices stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import DType, Value

Span: TypeAlias = tuple[int, int]
"""The minimum and the maximum that an element may have."""
_Spans: TypeAlias = Sequence[Span]

_READ = 4096
"""Maximum elements of constants that are read for their range."""
_WIDEST = 2**31 - 1
"""The maximum elements along a dimension, or in total, that INT32 can hold."""
_FITTING = (-(2**31), 2**31 - 1)
_KINDS: Mapping[DType, Span] = {
    DType.BOOL: (0, 1),
    **{
        kind: (int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max))
        for kind in (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.INT32, DType.UINT32)
    },
}

_INDICES = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
"""Operators that return indices, with the position of that output."""
_SIZES = frozenset(("Shape", "Size"))
_CHOICES: Mapping[str, slice] = {
    **dict.fromkeys(("Concat", "Max", "Min"), slice(None)),
    **dict.fromkeys(
        (
            *("Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
            *("ReduceMax", "ReduceMin", "Reshape", "Slice", "Split", "Squeeze", "Tile", "TopK"),
            *("Transpose", "Unsqueeze"),
        ),
        slice(0, 1),
    ),
    "Where": slice(1, 3),
}
"""Operators whose results are elements of these inputs."""
_ARITHMETIC: Mapping[str, Callable[[Span, Span], _Spans]] = {
    "Add": lambda a, b: [(a[0] + b[0], a[1] + b[1])],
    "Sub": lambda a, b: [(a[0] - b[1], a[1] - b[0])],
    "Mul": lambda a, b: [(x * y, x * y) for x in a for y in b],
    "Div": lambda a, b: [_both_ways(a)],
    "Mod": lambda a, b: [_both_ways(b)],
}


def fitted(graph: Graph) -> Graph:
    """Returns the graph with `fits` set on the INT64 values whose elements all fit INT32."""
    if not any(v is not None and v.dtype is DType.INT64 for n in graph.nodes for v in n.outputs):
        return graph
    found: dict[str, Span] = {}
    for node in graph.nodes:
        if not node.domain and not node.parts:
            found.update(_spans(node, found))

    def marked(value: Value | None) -> Value | None:
        if value is None or value.dtype is not DType.INT64:
            return value
        span = _span(value, found)
        return replace(value, fits=value.fits or (span is not None and _fits(span)))

    def settled(node: GraphNode) -> GraphNode:
        ins, outs = (tuple(marked(v) for v in values) for values in (node.inputs, node.outputs))
        return replace(node, inputs=ins, outputs=outs)

    return replace(graph, nodes=tuple(settled(n) for n in graph.nodes))


def narrowed(node: GraphNode) -> GraphNode:
    """Converts the node's INT64 values to INT32, if all fit and not all are constants."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype is DType.INT64]
    if not all(v.fits for v in values) or all(v.constant is not None for v in values):
        return node

    def short(value: Value | None) -> Value | None:
        if value is None or value.dtype is not DType.INT64:
            return value
        constant = value.constant and value.constant.cast(DType.INT32)
        return replace(value, dtype=DType.INT32, constant=constant)

    ins, outs = (tuple(short(v) for v in values) for values in (node.inputs, node.outputs))
    return replace(node, inputs=ins, outputs=outs)


def _spans(node: GraphNode, found: Mapping[str, Span]) -> Iterable[tuple[str, Span]]:
    """Yields the known ranges of the node's INT64 outputs, by name."""
    for i, output in enumerate(node.outputs):
        if output is not None and output.dtype is DType.INT64:
            span = _result(node, i, found)
            if span is not None:
                yield output.name, span


def _result(node: GraphNode, output: int, found: Mapping[str, Span]) -> Span | None:
    kind = node.op_type
    if kind in _SIZES:
        return 0, _WIDEST
    if _INDICES.get(kind) == output:
        return 0, _longest(node) - 1
    given = [_span(v, found) for v in node.inputs[_CHOICES.get(kind, slice(None))] if v is not None]
    known = [s for s in given if s is not None]
    if not known or len(known) < len(given):
        return None
    if kind in _CHOICES:
        return _hull(known)
    if kind in _ARITHMETIC and len(known) == 2:
        return _hull(_ARITHMETIC[kind](known[0], known[1]))
    return None


def _longest(node: GraphNode) -> int:
    """The largest dimension of the first input, `_WIDEST` if unknown."""
    x = node.inputs[0]
    dims = x.dims if x is not None and x.dims is not None else (None,)
    return max((d if isinstance(d, int) else _WIDEST for d in dims), default=1)


def _span(value: Value, found: Mapping[str, Span]) -> Span | None:
    """The range of an integer value, None if unknown."""
    if value.constant is not None and value.dtype.readable:
        if prod(value.constant.shape) > _READ:
            return None
        array = value.constant.array
        if array.size and np.issubdtype(array.dtype, np.integer):
            return int(array.min()), int(array.max())
    if value.fits:
        return found.get(value.name, _FITTING)
    return found.get(value.name, _KINDS.get(value.dtype))


def _hull(spans: _Spans) -> Span:
    return min(s[0] for s in spans), max(s[1] for s in spans)


def _both_ways(span: Span) -> Span:
    most = max(abs(span[0]), abs(span[1]))
    return -most, most


def _fits(span: Span) -> bool:
    return _FITTING[0] <= span[0] and span[1] <= _FITTING[1]
