"""Range analysis of INT64 values, to find those whose elements fit INT32.

NNAPI has no 64-bit integers. An index is less than a size, and a few sums and products of indices
stay small. A model's INT64 inputs may have any value: what positions and masks are supposed to have
at most, each run of a cluster checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import Graph, GraphNode, with_values
from ep_nnapi.graph.value import Constant, DType, Value, only_element
from ep_nnapi.nnapi.expressions import at_least
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import Size, identical, is_symbolic, now

Interval: TypeAlias = tuple[int, int]
"""The minimum and the maximum that an element may have."""
_Intervals: TypeAlias = Sequence[Interval]
NO_RANGES: Mapping[str, Interval] = MappingProxyType({})

_MAX_READ = 4096
"""Maximum elements of constants that are read for their range."""
_MAX_DIM = 2**31 - 1
"""The maximum elements along a dimension, or in total, that INT32 can hold."""
_INT32 = (-(2**31), 2**31 - 1)
_SUPPOSED = (1 << 24, 1 << 15, 1 << 7, 1)
"""What inputs may be supposed to have at most: positions and counts, ..., masks."""
_USUAL_DIM = 512
"""What unknown dimensions are taken for where the choice among these depends on them."""
_TYPE_INTERVALS: Mapping[DType, Interval] = {
    DType.BOOL: (0, 1),
    **{
        kind: (int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max))
        for kind in (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.INT32, DType.UINT32)
    },
}

_INDEX_OUTPUTS = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
"""Operators that return indices, with the position of that output."""
_ANY_NUMBERS = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "Shape": 0, "Size": 0}
"""Operators that read indexes, which fit what they index, or a shape: position of that input."""
_BOUNDED = frozenset(("Slice",))
"""Operators whose inputs after the first are bounds of any size, which are read as they are."""
_SUMS = frozenset(("CumSum", "ReduceSum"))
_SIZE_OPERATORS = frozenset(("Shape", "Size"))
_SELECTORS: Mapping[str, slice] = {
    **dict.fromkeys(("Clip", "Concat", "Max", "Min"), slice(None)),
    **dict.fromkeys(
        (
            *("Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
            *("ReduceMax", "ReduceMin", "Reshape", "Slice", "Split", "Squeeze", "Tile", "TopK"),
            *("Transpose", "Unsqueeze"),
        ),
        slice(0, 1),
    ),
    "Range": slice(0, 2),
    "ScatterElements": slice(0, 3, 2),
    "ScatterND": slice(0, 3, 2),
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
_OF_ONE: Mapping[str, Callable[[Interval], Interval]] = {
    "Abs": lambda a: (0, _magnitude(a)),
    "Neg": lambda a: (-a[1], -a[0]),
    "Sign": lambda a: (-1, 1),
}
_BOUNDED_BY_INPUTS = frozenset((*_SELECTORS, *_SUMS, *_OF_ONE, *_ARITHMETIC))
"""Operators whose results have a range if their inputs have one."""


def suppose_ranges(graph: Graph) -> Graph:
    """Returns the graph with a `limit` on INT64 inputs, and on what is computed from them.

    It is the largest for which the most nodes fit INT32; there is none without which as many do.
    """
    free = [v for v in graph.inputs if v.constant is None and not (v.limit or v.fits_int32)]
    names = [v.name for v in free if v.dtype is DType.INT64]
    if not names or graph.key:
        return graph
    integers = replace(graph, nodes=tuple([n for n in graph.nodes if _has_integers(n)]))
    limits = _limits(integers, names)
    if not limits:
        return graph
    proven = _intervals(integers, NO_RANGES)
    found = _intervals(integers, {name: (-most, most) for name, most in limits.items()})
    supposed = {
        n: max(-low, high) for n, (low, high) in found.items() if proven.get(n) != (low, high)
    }

    def limited(value: Value | None) -> Value | None:
        within = value is not None and value.dtype is DType.INT64 and value.name in supposed
        return replace(value, limit=supposed[value.name]) if value and within else value

    return replace(graph, nodes=tuple(with_values(n, limited, limited) for n in graph.nodes))


def _has_integers(node: GraphNode) -> bool:
    values = (*node.inputs, *node.outputs)
    return any(v is not None and v.dtype in (DType.INT64, DType.INT32) for v in values)


def _limits(graph: Graph, names: Sequence[str]) -> dict[str, int]:
    """The limits by input."""
    wide = [values for values in map(_wide, graph.nodes) if values is not None]

    def fitting(limits: Mapping[str, int]) -> int:
        """The number of nodes with INT64 values that all fit."""
        stated = {name: (-most, most) for name, most in limits.items()}
        found = _intervals(graph, stated, _USUAL_DIM)
        return sum(all(_known_to_fit(v, found) for v in values) for values in wide)

    limits = dict.fromkeys(names, _SUPPOSED[0])
    for name in names:
        limits = max(({**limits, name: most} for most in _SUPPOSED), key=fitting)
    most_fit = fitting(limits)
    for name in names:
        rest = {n: most for n, most in limits.items() if n != name}
        if fitting(rest) == most_fit:
            limits = rest
    return limits


def _wide(node: GraphNode) -> list[Value] | None:
    """The INT64 values of a node, but those that fit in any case, or are read as `_ANY_NUMBERS`.

    None if a constant among them does not fit.
    """
    free = _ANY_NUMBERS.get(node.op_type)
    given = node.inputs[:1] if node.op_type in _BOUNDED else node.inputs
    values = (*(v for i, v in enumerate(given) if i != free), *node.outputs)
    wide = [v for v in values if v is not None and v.dtype is DType.INT64 and not v.fits_int32]
    constants = [v for v in wide if v.constant is not None]
    if not all(_known_to_fit(v, NO_RANGES) for v in constants):
        return None
    return [v for v in wide if v.constant is None]


def mark_int32_ranges(graph: Graph, stated: Mapping[str, Interval] = NO_RANGES) -> Graph:
    """Returns the graph with what is known of INT64 values: `magnitude`, `single`, `fits_int32`.

    stated  ranges of inputs of the graph, which the caller knows
    """
    if not any(v is not None and v.dtype is DType.INT64 for n in graph.nodes for v in n.outputs):
        return graph
    found = _intervals(graph, stated)

    def marked(value: Value | None) -> Value | None:
        interval = _interval(value, found) if value and value.dtype is DType.INT64 else None
        if value is None or interval is None:
            return value
        fits = value.fits_int32 or _fits_int32(interval)
        single = interval[0] if identical(interval[:1], interval[1:]) else None
        return replace(value, fits_int32=fits, magnitude=_magnitude(interval), single=single)

    return replace(graph, nodes=tuple(with_values(n, marked, marked) for n in graph.nodes))


def values_fitting_int32(graph: Graph, stated: Mapping[str, Interval]) -> frozenset[str]:
    """Returns the names of the INT64 values whose elements all fit INT32.

    stated  ranges of inputs of the graph, which the caller knows
    """
    found = _intervals(graph, stated)
    values = (v for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None)
    return frozenset(v.name for v in values if v.dtype is DType.INT64 and _known_to_fit(v, found))


def narrow_to_int32(node: GraphNode) -> GraphNode:
    """Converts the node's INT64 values to INT32, if all fit and not all are constants."""
    given = node.inputs[:1] if node.op_type in _BOUNDED else node.inputs
    values = [v for v in (*given, *node.outputs) if v is not None and v.dtype is DType.INT64]
    stored = all(v.constant is not None and not v.constant.numbers for v in values)
    if stored or not all(v.fits_int32 for v in values):
        return node

    def narrow(value: Value | None) -> Value | None:
        if value is None or value.dtype is not DType.INT64:
            return value
        constant = value.constant and value.constant.cast(DType.INT32)
        return replace(value, dtype=DType.INT32, constant=constant)

    ins = (*map(narrow, given), *node.inputs[len(given) :])
    return replace(node, inputs=ins, outputs=tuple(map(narrow, node.outputs)))


def _intervals(
    graph: Graph, stated: Mapping[str, Interval], longest: int = _MAX_DIM
) -> dict[str, Interval]:
    """The known ranges of the graph's INT64 values by name, constants excepted.

    longest  the most that a dimension of unknown size has
    """
    found = dict(stated)
    for node in graph.nodes:
        if not node.domain and not node.parts:
            found.update(_output_intervals(node, found, longest))
    return found


def _known_to_fit(value: Value, found: Mapping[str, Interval]) -> bool:
    interval = _interval(value, found)
    return interval is not None and _fits_int32(interval)


def _output_intervals(
    node: GraphNode, found: Mapping[str, Interval], longest: int
) -> Iterable[tuple[str, Interval]]:
    """Yields the known ranges of the node's INT64 and INT32 outputs, by name."""
    for i, output in enumerate(node.outputs):
        if output is not None and output.dtype in (DType.INT64, DType.INT32):
            interval = _output_interval(node, i, found, longest)
            if output.dtype is DType.INT32 and interval and not _fits_int32(interval):
                continue  # it wraps
            if interval is not None and output.limit:  # which is of absolute values
                interval = -_magnitude(interval), _magnitude(interval)
            if interval is not None:
                yield output.name, interval


def _output_interval(
    node: GraphNode, output: int, found: Mapping[str, Interval], longest: int
) -> Interval | None:
    kind = node.op_type
    if kind in _SIZE_OPERATORS:
        return 0, _MAX_DIM
    if _INDEX_OUTPUTS.get(kind) == output:
        return 0, _largest_dim(node, longest) - 1
    if kind == "ConstantOfShape":
        value = node.attributes.get("value")
        number = int(only_element(value, "value")) if isinstance(value, Constant) else 0
        return number, number
    if kind == "EyeLike":
        return 0, 1
    if kind not in _BOUNDED_BY_INPUTS:
        return None  # before constants are read
    given = [
        _interval(v, found) for v in node.inputs[_SELECTORS.get(kind, slice(None))] if v is not None
    ]
    known = [s for s in given if s is not None]
    return _computed(node, known, longest) if 0 < len(known) == len(given) else None


def _computed(node: GraphNode, known: _Intervals, longest: int) -> Interval | None:
    """The range of what the operator computes from numbers of these ranges."""
    kind, found = node.op_type, None
    if kind in _SELECTORS:
        found = _hull(known)
    elif kind in _SUMS:
        found = _sum(known[0], _terms(node, longest))
    elif kind in _OF_ONE:
        found = _OF_ONE[kind](known[0])
    elif kind in _ARITHMETIC and len(known) == 2:
        found = _hull(_ARITHMETIC[kind](known[0], known[1]))
    return found


def _dims(node: GraphNode, longest: int) -> list[int]:
    """The sizes of the first input, `longest` for each that is unknown."""
    x = node.inputs[0]
    dims = x.dims if x is not None and x.dims is not None else (None,)
    return [d if isinstance(d, int) else longest for d in dims]


def _largest_dim(node: GraphNode, longest: int) -> int:
    return _greatest([*_dims(node, longest), 1])


def _terms(node: GraphNode, longest: int) -> int:
    """No fewer numbers than each sum has; a tensor of an unknown size has as many as Size says."""
    if node.op_type == "ReduceSum":
        dims = _dims(node, longest)
        return prod(dims) if _MAX_DIM not in dims else min(prod(dims), _MAX_DIM)
    return _largest_dim(node, longest)


def _sum(each: Interval, terms: int) -> Interval:
    """The range of sums of so many numbers, or fewer."""
    return min(each[0], 0) * terms, max(each[1], 0) * terms


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
    if value.limit:
        return found.get(value.name, (-value.limit, value.limit))
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
    sizes = {n.expression: n for n in numbers if isinstance(n, Size)}
    return sum((n for e, n in sizes.items() if not at_least(-e, 0) and n >= 0), start=max(most, 0))


def _magnitude(interval: Interval) -> int:
    """What no number of the range is further from 0 than."""
    return _greatest((-interval[0], interval[1]))


def _symmetric(interval: Interval) -> Interval:
    most = max(abs(interval[0]), abs(interval[1]))
    return -most, most


def _fits_int32(interval: Interval) -> bool:
    """True if it does; only that is a condition on sizes, as nothing rests on what is unknown."""
    low, high = interval
    if now(low) < _INT32[0] or now(high) > _INT32[1]:
        return False
    return _INT32[0] <= low and high <= _INT32[1]
