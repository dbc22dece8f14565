"""ONNX graph under construction: nodes and constants, and the model proto made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
)

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.expressions import Atom, Expression, Quotient
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.sizes import Size, identical
from ep_nnapi.ort_devices.opened import NotTaken

CONTRIB = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

OPSET, _IR_VERSION = 21, 10
"""The newest opset for which ONNX Runtime's other providers have most of their kernels."""

_INLINE = 1024
"""Constants of at most so many bytes are stored in the model itself; shape computations and
optimizers of ONNX Runtime read them there."""

Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


@frozen
class Built:
    """An ONNX model whose large constants are its last inputs: the session gets them separately."""

    proto: ModelProto
    weights: Mapping[str, Array]


@dataclass(slots=True)
class Constants:
    """Constants of a model by name; values are computed only when the model is built.

    Constants with equal keys are stored once.
    """

    _names: dict[object, str] = field(default_factory=dict)
    _values: dict[str, Callable[[], Array]] = field(default_factory=dict)

    def lazy(self, key: object, make: Callable[[], Array]) -> str:
        """Name of the constant that `make` computes; `key` identifies its value."""
        if key not in self._names:
            self._names[key] = f"c{len(self._names)}"
            self._values[self._names[key]] = make
        return self._names[key]

    def array(self, value: Array) -> str:
        """Name of a small constant."""
        return self.lazy((value.dtype.str, value.shape, value.tobytes()), lambda: value)

    def build(self, read: Set[str]) -> tuple[list[TensorProto], dict[str, Array]]:
        """Initializers, and the constants that are too large to be one, of those that are read."""
        tensors, weights = [], {}
        for name, make in self._values.items():
            if name not in read:
                continue
            value = np.asarray(make(), order="C")
            if value.nbytes > _INLINE:
                weights[name] = value
                continue
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            raw = value.tobytes()
            tensors.append(TensorProto(name=name, data_type=dtype, dims=value.shape, raw_data=raw))
        return tensors, weights


def _add_attribute(node: NodeProto, name: str, value: Attribute) -> None:
    """Add an attribute; `helper.make_attribute` takes five times as long for integers.

    It is a number, so that a `Size` in it has to be its value.
    """
    if isinstance(value, Size):
        value = value.plain()
    elif type(value) is tuple and Size in map(type, value):
        value = tuple(int(n) for n in value)
    if type(value) is int:
        node.attribute.add(name=name, type=AttributeProto.INT, i=value)
    elif type(value) is tuple and value and set(map(type, value)) == {int}:
        node.attribute.add(name=name, type=AttributeProto.INTS, ints=value)
    else:
        node.attribute.append(helper.make_attribute(name, value))


def _without_unread(nodes: Sequence[NodeProto], outputs: Set[str]) -> list[NodeProto]:
    """The nodes without those whose results nothing reads."""
    kept, read = [], set(outputs)
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            kept.append(node)
            read.update(node.input)
    return kept[::-1]


def _relative(source: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
    """The sizes as Reshape takes them: a `Size` is copied, or what is left, if one of them can be.

    source  sizes of what is reshaped, empty if they are unknown
    """
    if not any(isinstance(n, Size) for n in sizes) or any(n <= 0 for n in sizes):
        return sizes
    pairs = zip(source, sizes, strict=False)
    copied = [isinstance(b, Size) and identical([a], [b]) for a, b in pairs]
    found = [0 if same else size for same, size in zip(copied, sizes, strict=False)]
    found += sizes[len(found) :]
    left = [axis for axis, size in enumerate(found) if isinstance(size, Size)]
    if len(left) == 1:
        found[left[0]] = -1
    return found


class Inexpressible(NotTaken):
    """An operation that these devices cannot compute exactly, or not with what is known of it."""


def require(condition: bool, detail: str) -> None:
    """Raises Inexpressible(detail) unless `condition`."""
    if not condition:
        raise Inexpressible(detail)


class SizeNodes:
    """Sizes in a graph as int64 tensors, each computed once.

    The graph, which has this object, is passed on: each would keep the other alive.
    """

    def __init__(self) -> None:
        self._sources: dict[Expression, Callable[[OnnxGraph], str]] = {}
        self._made: dict[Expression, str] = {}
        self._vectors: dict[tuple[Expression, ...], str] = {}

    def enter(self, name: str, dims: Iterable[int | None]) -> None:
        """Declare an input of the graph, whose sizes are known in a run."""
        for axis, dim in enumerate(dims):
            if isinstance(dim, Size):
                self._sources.setdefault(dim.expression, partial(_axis, name, axis))

    def enter_contents(self, name: str, numbers: Iterable[int]) -> None:
        """Declare an input of the graph, an INT32 vector of sizes."""
        for index, number in enumerate(numbers):
            if isinstance(number, Size):
                self._sources.setdefault(number.expression, partial(_element, name, index))

    def vector(self, graph: OnnxGraph, sizes: Sequence[int]) -> str:
        """Name of the sizes as a tensor [n]; raises Inexpressible."""
        key = tuple(map(Expression.of, sizes))
        if key not in self._vectors:
            parts = [
                name
                for known, group in groupby(key, lambda e: e.constant is not None)
                for name in (
                    [self._numbers(graph, group)] if known else (self._of(graph, e) for e in group)
                )
            ]
            joined = parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=0)
            self._vectors[key] = joined
        return self._vectors[key]

    def _numbers(self, graph: OnnxGraph, given: Iterable[Expression]) -> str:
        return graph.constant(np.array([e.constant for e in given], np.int64))

    def _of(self, graph: OnnxGraph, expression: Expression) -> str:
        """Name of the value of an expression, a tensor [1]."""
        if expression not in self._made:
            self._made[expression] = self._new(graph, expression)
        return self._made[expression]

    def _new(self, graph: OnnxGraph, expression: Expression) -> str:
        if expression in self._sources:
            return self._sources[expression](graph)
        terms = [self._product(graph, monomial, factor) for monomial, factor in expression.terms]
        total = terms[0] if terms else self._numbers(graph, [expression])
        for term in terms[1:]:
            total = graph.node("Add", total, term)
        return total

    def _product(self, graph: OnnxGraph, monomial: tuple[Atom, ...], factor: int) -> str:
        whole = Expression(((monomial, 1),))
        if len(monomial) > 1 and whole in self._sources:
            factors = [self._of(graph, whole)]
        else:
            factors = [self._atom(graph, atom) for atom in monomial]
        if factor != 1 or not factors:
            factors.append(self._numbers(graph, [Expression.of(factor)]))
        product = factors[0]
        for name in factors[1:]:
            product = graph.node("Mul", product, name)
        return product

    def _atom(self, graph: OnnxGraph, atom: Atom) -> str:
        alone = Expression((((atom,), 1),))
        if alone not in self._made:
            if isinstance(atom, Quotient):
                self._made[alone] = self._quotient(graph, atom)
            elif alone not in self._sources:
                raise Inexpressible(f"the size {atom} is no size of an input")
        return self._of(graph, alone)

    def _quotient(self, graph: OnnxGraph, quotient: Quotient) -> str:
        """The quotient rounded down, where ONNX's Div rounds towards zero."""
        dividend, divisor = self._of(graph, quotient.dividend), self._of(graph, quotient.divisor)
        least = quotient.dividend.least
        if least is None or least < 0:
            rest = graph.node("Mod", dividend, divisor)  # has the divisor's sign
            dividend = graph.node("Sub", dividend, rest)
        return graph.node("Div", dividend, divisor)


def _axis(name: str, axis: int, graph: OnnxGraph) -> str:
    return graph.node("Shape", name, start=axis, end=axis + 1)


def _element(name: str, index: int, graph: OnnxGraph) -> str:
    number = graph.node("Gather", name, graph.ints([index]))
    return graph.node("Cast", number, to=TensorProto.INT64)


class OnnxGraph:
    """A graph to which nodes are added in topological order.

    shapes   of values, as far as they are known
    opset    a newer one where a node needs it
    """

    def __init__(self) -> None:
        self.opset = OPSET
        self.nodes: list[NodeProto] = []
        self.constants = Constants()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._sources: dict[str, str] = {}
        self._reshaped: dict[tuple[str, str], str] = {}
        self._before: dict[tuple[str, int], str] = {}
        self._inner: set[str] = set()  # results of nodes that are no outputs of the graph
        self._counter = 0
        self.sizes = SizeNodes()

    def name(self) -> str:
        """Return a value name that is new in this graph."""
        self._counter += 1
        return f"v{self._counter}"

    def node(self, op_type: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Add a node with one output; returns the output's name."""
        return self.many(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def many(
        self,
        op_type: str,
        outputs: int,
        *inputs: str,
        domain: str = "",
        **attributes: Attribute,
    ) -> list[str]:
        """Add a node with that many outputs; returns their names."""
        names = [self.name() for _ in range(outputs)]
        node = NodeProto(op_type=op_type, domain=domain, input=inputs, output=names)
        for key, value in attributes.items():
            _add_attribute(node, key, value)
        self.nodes.append(node)
        self._inner.update(names)
        return names

    def reshape(self, value: str, sizes: Sequence[int]) -> str:
        """Return `value` in another shape.

        Of several reshapes in a row only the last one is a node, and none is if the shape stays.

        sizes   as Reshape takes them: 0 copies a size of `value`, -1 stands for what is left
        """
        source = self._sources.get(value, value) if all(n > 0 for n in sizes) else value
        known = self.shapes.get(source)
        if known is not None and identical(known, sizes):
            return source
        shape = self.ints(_relative(known or (), sizes))
        name = self._reshaped.get((source, shape))
        if name is None:
            name = self._reshaped[source, shape] = self.node("Reshape", source, shape)
            self._sources[name] = source
        return name

    def cast(self, value: str, to: int, *, exact_from: int | None = None) -> str:
        """Return numbers in another type; what they were before where an exact cast made them.

        exact_from   the type of `value`, if no number changes, so that a cast back is none
        """
        before = self._before.get((value, to))
        if before is not None:
            return before
        made = self.node("Cast", value, to=to)
        if exact_from is not None:
            self._before[made, exact_from] = value
        return made

    def output(self, value: str) -> str:
        """Return the name of an output of the graph that has this value; outputs differ in name.

        It is an Identity's only where the value is an input, a constant or already an output: ONNX
        Runtime 1.32 creates no session if EliminateIdentity renames what GemmTransposeFusion reads.
        """
        if value not in self._inner:
            return self.node("Identity", value)
        self._inner.remove(value)
        return value

    def ints(self, values: Sequence[int]) -> str:
        """Name of an int64 tensor [n]: shapes, axes and the like; constant without a `Size`."""
        if any(isinstance(n, Size) for n in values):
            return self.sizes.vector(self, values)
        return self.constant(np.array(values, np.int64))

    def constant(self, value: Array) -> str:
        """Name of a small constant."""
        return self.constants.array(value)

    def build(self, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> Built:
        """The whole model."""
        nodes = _without_unread(self.nodes, {value.name for value in outputs})
        graph = helper.make_graph(nodes, "nnapi", list(inputs), list(outputs))
        read = {name for node in nodes for name in node.input}
        tensors, weights = self.constants.build(read)
        graph.initializer.extend(tensors)
        graph.input.extend(
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in weights.items()
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return Built(model, weights)
