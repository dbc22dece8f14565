"""Sizes that are expressions, as tensors that LiteRT computes from others' shapes before a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.expressions import Expression
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.ort_devices.graph import require

if TYPE_CHECKING:
    from ep_nnapi.litert.flat_graph import FlatGraph

_INT32 = 2
"""Type of shapes. Source: LiteRT's schema, TensorType."""


def fixed(*sizes: int) -> None:
    """Raise Inexpressible if one of the sizes is an expression."""
    require(not any(isinstance(size, Size) for size in sizes), "a size is open")


@dataclass(slots=True)
class FlatSizes:
    """Sizes in a graph as int32 tensors [n].

    They are made by SHAPE, STRIDED_SLICE, MUL and CONCATENATION, which LiteRT computes when inputs
    are resized, so that what is made with such sizes has known ones too.

    known   the tensors with the sizes
    """

    known: set[int] = field(default_factory=set)
    _sources: dict[Expression, tuple[int, int]] = field(default_factory=dict)
    _vectors: dict[tuple[Expression, ...], int] = field(default_factory=dict)

    def enter(self, tensor: int, shape: Sequence[int]) -> None:
        """Declare a tensor that there is now, with this shape."""
        for axis, size in enumerate(shape):
            if isinstance(size, Size):
                self._sources.setdefault(size.expression, (tensor, axis))

    def vector(self, graph: FlatGraph, sizes: Sequence[int]) -> int:
        """The tensor of sizes; raises Inexpressible."""
        return self._of(graph, tuple(map(Expression.of, sizes)))

    def _of(self, graph: FlatGraph, key: tuple[Expression, ...]) -> int:
        if key not in self._vectors:
            made = self._joined(graph, key) if len(key) > 1 else self._element(graph, *key)
            self._vectors[key] = made
        return self._vectors[key]

    def _joined(self, graph: FlatGraph, key: tuple[Expression, ...]) -> int:
        parts: list[int] = []
        for constant, group in groupby(key, lambda e: e.constant is not None):
            if constant:
                parts.append(graph.ints([e.constant or 0 for e in group]))
            else:
                parts += [self._of(graph, (e,)) for e in group]
        if len(parts) == 1:
            return parts[0]
        return self._new(graph, "CONCATENATION", parts, len(key), "Concatenation", axis=0)

    def _element(self, graph: FlatGraph, expression: Expression) -> int:
        if expression not in self._sources:
            return self._product(graph, expression)
        tensor, axis = self._sources[expression]
        rank = len(graph.tensors[tensor].shape)
        shape = self._new(graph, "SHAPE", [tensor], rank, "Shape", outType=_INT32)
        ends = [graph.ints([n]) for n in (axis, axis + 1, 1)]
        return self._new(graph, "STRIDED_SLICE", [shape, *ends], 1, "StridedSlice")

    def _product(self, graph: FlatGraph, expression: Expression) -> int:
        """The value of a product of sizes that tensors have, [1]."""
        (atoms, factor), *others = expression.terms
        factors = [Expression((((atom,), 1),)) for atom in atoms]
        known = not others and expression not in factors
        require(known, f"the size {expression} is no size of a tensor")
        product = graph.ints([factor])
        for each in factors:
            product = self._new(graph, "MUL", [product, self._of(graph, (each,))], 1, "Mul")
        return product

    def _new(
        self,
        graph: FlatGraph,
        operator: str,
        inputs: Sequence[int],
        count: int,
        kind: str,
        **of: int,
    ) -> int:
        made = graph.vector(count)
        graph.operator(operator, inputs, [made], (kind, of))
        self.known.add(made)
        return made
