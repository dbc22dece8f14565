"""Sizes that are expressions, as tensors that LiteRT computes from others' shapes before a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.ort_devices.graph import SizeTensors, require

if TYPE_CHECKING:
    from ep_nnapi.litert.flat_graph import FlatGraph

_INT32 = 2
"""Type of shapes. Source: LiteRT's schema, TensorType."""


def fixed(*sizes: int) -> None:
    """Raise Inexpressible if one of the sizes is an expression."""
    require(not any(isinstance(size, Size) for size in sizes), "a size is open")


class FlatSizes(SizeTensors["FlatGraph", int]):
    """Sizes in a graph as int32 tensors, of products only.

    They are made by SHAPE, STRIDED_SLICE, MUL and CONCATENATION, which LiteRT computes when inputs
    are resized, so that what is made with such sizes has known ones too.

    known   the tensors with the sizes
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()

    def enter(self, tensor: int, shape: Sequence[int]) -> None:
        """Declare a tensor that there is now, with this shape."""
        for axis, size in enumerate(shape):
            if isinstance(size, Size):
                self.sources.setdefault(size.expression, partial(self._axis, tensor, axis))

    def _axis(self, tensor: int, axis: int, graph: FlatGraph) -> int:
        rank = len(graph.tensors[tensor].shape)
        shape = self._result(graph, "SHAPE", [tensor], rank, outType=_INT32)
        ends = [graph.ints([n]) for n in (axis, axis + 1, 1)]
        return self._result(graph, "STRIDED_SLICE", [shape, *ends], 1)

    def _constant(self, graph: FlatGraph, numbers: list[int]) -> int:
        return graph.ints(numbers)

    def _computed(self, graph: FlatGraph, op_type: str, *inputs: int) -> int:
        if op_type == "Concat":
            count = sum(graph.tensors[i].shape[0] for i in inputs)
            return self._result(graph, "CONCATENATION", inputs, count, axis=0)
        require(op_type == "Mul", f"LiteRT computes {op_type} of sizes too late")
        return self._result(graph, "MUL", inputs, 1)

    def _result(
        self,
        graph: FlatGraph,
        operator: str,
        inputs: Sequence[int],
        count: int,
        **of: int,
    ) -> int:
        made = graph.vector(count)
        graph.operator(operator, inputs, [made], of)
        self.known.add(made)
        return made
