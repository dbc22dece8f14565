"""Lowering of a cluster for all sizes at once: symbols for its open dimensions, and its proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from types import MappingProxyType

import numpy as np

from ep_nnapi.capability.node import CapableNode
from ep_nnapi.graph.value import Constant, DType, Value, operand_shape
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import OptionError, Reason
from ep_nnapi.nnapi.expressions import Condition, Expression, Relation, Symbols
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.sizes import Size, Trace
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.sizes.int64_ranges import Interval
from ep_nnapi.sizes.symbols import Shapes, size_named, symbol_of

_LEAST = 2
"""Smaller sizes are numbers."""
_OTHERS = ((1, 1, 2), (2, 1, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0))
"""Other values to try for symbol i: factor, summand, and summand times i."""


@frozen
class Tracing:
    """A cluster's inputs with a symbol for each of their open dimensions.

    inputs    with sizes among the contents of small integer ones that determine shapes; larger
              ones are inputs of the model instead
    shapes    with a `Size` for each symbol
    symbols   their values
    places    inputs and axes by symbol
    contents  of the inputs with sizes among these
    ranges    of INT64 inputs that have been contents
    """

    inputs: list[Value]
    shapes: dict[str, tuple[int, ...]]
    symbols: dict[str, int]
    places: dict[str, tuple[tuple[str, int], ...]]
    contents: dict[str, tuple[int, ...]]
    trace: Trace
    ranges: dict[str, Interval]

    @staticmethod
    def of(inputs: Sequence[Value], shapes: Shapes) -> Tracing:
        """Make the symbols for numbers; sizes of 0 and 1 stay numbers, as broadcasting needs.

        Raises OptionError if a named dimension has two sizes.
        """
        made = Tracing([], dict(shapes), {}, {}, {}, Trace(), {})
        shaped = [value for value in inputs if value.name in shapes]
        sized = [pair for v in shaped for pair in zip(v.dims or (), shapes[v.name], strict=False)]
        known = {dim: size for dim, size in sized if isinstance(dim, str)}
        for given in inputs:
            value = given if is_small(given.constant) else replace(given, folded=False)
            if given.folded and not value.folded:
                value = replace(value, constant=None)
                made.ranges.update(_range(given))
            if value.folded:
                made.contents[value.name] = made._contents(value)
            elif value.name in shapes:
                shape = shapes[value.name]
                made.shapes[value.name] = tuple(
                    made._size(value, axis, shape, known) for axis in range(len(shape))
                )
            made.inputs.append(made._with_contents(value))
        return made

    def _size(self, value: Value, axis: int, shape: tuple[int, ...], known: Symbols) -> int:
        """The size of a dimension: a number, an expression of symbols, or a symbol."""
        size, dims = shape[axis], value.dims if value.dims is not None else (None,) * len(shape)
        if isinstance(dims[axis], int) or size < _LEAST:
            return size
        name = symbol_of(value.name, dims, axis)
        if name not in self.symbols and size_named(name, known) == size:
            sizes = {n: self.trace.size(n, v) if v >= _LEAST else v for n, v in known.items()}
            return size_named(name, sizes) or size
        if self.symbols.setdefault(name, size) != size:
            raise OptionError(f"{name} has two sizes, {self.symbols[name]} and {size}")
        self.places[name] = (*self.places.get(name, ()), (value.name, axis))
        return self.trace.size(name, size)

    def _contents(self, value: Value) -> tuple[int, ...]:
        """The contents of an input, each a number or a symbol of its own."""
        found = []
        for index, number in enumerate(value.constant.integers if value.constant else ()):
            name = f"{value.name}[{index}]"
            symbolic = _LEAST <= number <= _FAR_BELOW_INT32
            if symbolic:
                self.symbols[name] = number
                self.places[name] = ((value.name, index),)
            found.append(self.trace.size(name, number) if symbolic else number)
        return tuple(found)

    def _with_contents(self, value: Value) -> Value:
        """The input with its contents, where these determine shapes."""
        if value.constant is None or value.name not in self.contents:
            return value
        numbers, constant = self.contents[value.name], value.constant
        made = Constant.of_sizes(numbers, constant.shape, constant.dtype)
        return replace(value, constant=made)

    def completed(self, lowered: Lowered) -> Lowered:
        """The cluster lowered for these sizes, with what it depends on.

        Inputs that no operation reads are its last inputs where only they tell a device sizes.
        Raises Declined for contents without elements, which no input of a model can have.
        """
        model, border = lowered.model, lowered.border
        for value in self._unread(border):
            numbers = self.contents.get(value.name)
            if numbers == ():
                raise Declined((), Reason.SHAPE, f"{value.name} has no elements")
            code, shape = _UNREAD[value.dtype], operand_shape(value.shape)
            model = replace(
                model,
                operands=(*model.operands, Operand(code, shape)),
                inputs=(*model.inputs, len(model.operands)),
                contents=(*model.contents, *(() if numbers is None else (numbers,))),
            )
            at, dtype = len(model.inputs) - 1, code.numpy
            made = Crossing(value.name, value.dtype, value.shape, at, None, shape, dtype)
            border = Border((*border.inputs, made), border.outputs)
        model = replace(model, conditions=self.trace.conditions).with_matches(lowered.model)
        return replace(lowered, model=model, border=border, symbols=self.places, ranges=self.ranges)

    def _unread(self, border: Border) -> list[Value]:
        """Inputs that alone have a symbol as a size, then those with contents."""
        read = {crossing.name for crossing in border.inputs}
        shaped: list[Value] = []
        for places in self.places.values():
            names = {name for name, _ in places}
            if names.isdisjoint((*read, *self.contents, *(v.name for v in shaped))):
                alike = (v for v in self.inputs if v.name in names and v.dtype in _UNREAD)
                shaped += (replace(v, dims=self.shapes[v.name]) for v in islice(alike, 1))
        return [*shaped, *(v for v in self.inputs if v.name in self.contents)]

    @property
    def coincides(self) -> bool:
        """True if symbols are found to be equal that had equal values."""
        symbols = self.trace.equal
        return len({*self.symbols.values()}) < len(self.symbols) and bool(symbols)

    @property
    def apart(self) -> Tracing:
        """The same symbols with a value of their own each."""
        return self.bind({n: v + 1 + 2 * i for i, (n, v) in enumerate(self.symbols.items())})

    def others(
        self, conditions: Sequence[Condition], kept: Symbols = MappingProxyType({})
    ) -> Iterator[dict[str, int]]:
        """Other values of the symbols that meet the conditions, and the equations among them.

        kept  values of symbols that stay
        """
        for factor, more, apart in _OTHERS:
            sizes = enumerate(self.symbols.items())
            values = {name: size * factor + more + apart * i for i, (name, size) in sizes}
            values |= kept
            values |= {name: e.evaluate(values) for name, e in self.trace.equal.items()}
            least = min(values.values(), default=0)
            if values == self.symbols or least < _LEAST:
                continue
            if all(c.holds(values) for c in conditions):
                yield values

    def keep_one(self, conditions: Sequence[Condition]) -> dict[str, int] | None:
        """Other values of all symbols but one; None if there are none.

        That the one keeps its value is a condition more of the trace.
        """
        for name in (name for name in self.symbols if name not in self.trace.equal):
            values = next(self.others(conditions, {name: self.symbols[name]}), None)
            if values is not None:
                own = Expression.of(self.symbols[name])
                self.trace.note(Expression.symbol(name) - own, Relation.ZERO)
                return values
        return None

    def bind(self, values: Symbols) -> Tracing:
        """The same symbols with these values."""
        trace = Trace(dict(self.trace.typical))

        shapes, contents = (
            {name: tuple(rebound(s, values, trace) for s in each) for name, each in sizes.items()}
            for sizes in (self.shapes, self.contents)
        )
        made = Tracing([], shapes, dict(values), self.places, contents, trace, self.ranges)
        made.inputs.extend(made._with_contents(value) for value in self.inputs)
        return made


_UNREAD = {
    DType.BOOL: OperandCode.TENSOR_BOOL8,
    DType.FLOAT: OperandCode.TENSOR_FLOAT32,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.INT64: OperandCode.TENSOR_INT32,
}
"""Types of operands for inputs that no operation reads."""
_MOST_NUMBERS = 16
"""Most elements of contents that may be symbols."""
_FAR_BELOW_INT32 = 1 << 24


def is_small(constant: Constant | None) -> bool:
    """True for a few integers; others determine no shapes but what is computed, as masks do."""
    if constant is None or constant.dtype not in (DType.INT64, DType.INT32):
        return False
    return prod(constant.shape) <= _MOST_NUMBERS


def _range(value: Value) -> Iterator[tuple[str, Interval]]:
    """The range of contents that are positions or counts: they grow no faster than tensors do."""
    constant, most = value.constant, _FAR_BELOW_INT32
    if constant is None or constant.dtype is not DType.INT64:
        return
    if (np.abs(constant.array) <= most).all():
        yield value.name, (-most, most)


def rebound(size: int, values: Symbols, trace: Trace) -> int:
    """The size for these values of symbols."""
    if not isinstance(size, Size):
        return size
    return Size.of(size.expression.evaluate(values), size.expression, trace)


@frozen
class Traced:
    """A cluster lowered for symbols, and its nodes."""

    tracing: Tracing
    lowered: Lowered
    members: Sequence[CapableNode]
