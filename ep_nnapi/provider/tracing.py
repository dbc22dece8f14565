"""Lowering of a cluster for all sizes at once: symbols for its open dimensions, and its proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.sizes import Condition, Size, Symbols, Trace
from ep_nnapi.sizes.symbols import Shapes, symbol_of

_OTHERS = ((1, 1, 2), (2, 1, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0))
"""Other values to try for symbol i: factor, summand, and summand times i."""


@frozen
class Tracing:
    """Shapes of a cluster's inputs with a symbol for each of their open dimensions.

    shapes   with a `Size` for each symbol
    symbols  their values
    places   inputs and axes by symbol
    """

    shapes: Shapes
    symbols: Symbols
    places: Mapping[str, tuple[tuple[str, int], ...]]
    trace: Trace

    @staticmethod
    def of(inputs: Sequence[Value], shapes: Shapes) -> Tracing:
        """Make the symbols for numbers; sizes of 0 and 1 stay numbers, as broadcasting needs.

        Raises OptionError if a named dimension has two sizes.
        """
        trace, sizes, found = Trace(), dict[str, int](), dict(shapes)
        places: dict[str, tuple[tuple[str, int], ...]] = {}
        for value in inputs:
            shape = list(shapes.get(value.name, ()))
            dims = value.dims if value.dims is not None else (None,) * len(shape)
            for axis, size in enumerate(shape if not value.folded else ()):
                if isinstance(dims[axis], int) or size < 2:
                    continue
                name = symbol_of(value.name, dims, axis)
                if sizes.setdefault(name, size) != size:
                    raise OptionError(f"{name} has two sizes, {sizes[name]} and {size}")
                places[name] = (*places.get(name, ()), (value.name, axis))
                shape[axis] = trace.size(name, size)
            if value.name in shapes:
                found[value.name] = tuple(shape)
        return Tracing(found, sizes, places, trace)

    def others(self, conditions: Sequence[Condition]) -> Iterator[Tracing]:
        """The same symbols with other values that meet the conditions."""
        for factor, more, apart in _OTHERS:
            values = {
                name: size * factor + more + apart * i
                for i, (name, size) in enumerate(self.symbols.items())
            }
            if all(c.holds(values) for c in conditions):
                yield self.bind(values)

    def bind(self, values: Symbols) -> Tracing:
        """The same symbols with these values."""
        trace = Trace(dict(self.trace.typical))
        sizes = {name: trace.size(name, values[name]) for name in self.symbols}
        shapes = {
            name: tuple(
                sizes[str(size.expression)] if isinstance(size, Size) else size for size in shape
            )
            for name, shape in self.shapes.items()
        }
        return Tracing(shapes, dict(values), self.places, trace)


@frozen
class Traced:
    """A cluster lowered for symbols."""

    tracing: Tracing
    lowered: Lowered


def difference(one: Lowered, other: Lowered) -> str:
    """The first difference of two clusters without symbols; "" if there is none.

    Equal constants may be one operand or several: two sizes may be equal by chance.
    """
    a, b = one.model, other.model
    if len(a.operations) != len(b.operations):
        return f"{len(a.operations)} and {len(b.operations)} operations"
    if one.border != other.border or len(a.inputs) != len(b.inputs):
        return "their inputs or outputs"
    same = dict(zip(a.inputs, b.inputs, strict=True))
    for i, (mine, others) in enumerate(zip(a.operations, b.operations, strict=True)):
        pairs = [*zip(mine.inputs, others.inputs, strict=False)]
        pairs += zip(mine.outputs, others.outputs, strict=False)
        if mine.spec != others.spec or len(mine.inputs) != len(others.inputs):
            return f"operation {i} is {mine.spec} and {others.spec}"
        for x, y in pairs:
            left, right = a.operands[x], b.operands[y]
            if left != right or (left.value is None and same.setdefault(x, y) != y):
                return f"operation {i}, {mine.spec} of {mine.origin}, has {left} and {right}"
    outputs = [same.get(i) for i in a.outputs] == [*b.outputs]
    return "" if outputs and a.relaxed == b.relaxed else "their outputs"
