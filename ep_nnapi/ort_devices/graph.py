"""ONNX graph under construction: nodes and constants, and the model proto made from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import groupby
from typing import Generic, TypeAlias, TypeVar

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
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.expressions import Atom, Expression, Quotient
from ep_nnapi.nnapi.host.kernels.elementwise import activation_range
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.sizes import Size, identical
from ep_nnapi.ort_devices.opened import NotTaken
from ep_nnapi.sessions.device_session import DeviceModel

CONTRIB = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

OPSET, _IR_VERSION = 21, 10
"""The newest opset for which ONNX Runtime's other providers have most of their kernels."""

_INLINE = 1024
"""Constants of at most so many bytes are stored in the model itself; shape computations and
optimizers of ONNX Runtime read them there."""

G = TypeVar("G")  # a graph
T = TypeVar("T")  # how it names its tensors

Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


@frozen
class Built:
    """An ONNX model whose large constants are its last inputs: the session gets them separately."""

    proto: ModelProto
    weights: Mapping[str, Array]

    def model(self) -> DeviceModel:
        """Return the model as a session takes it."""
        inputs = tuple(v.name for v in self.proto.graph.input if v.name not in self.weights)
        outputs = {
            value.name: tuple(
                size.dim_value if size.HasField("dim_value") else None
                for size in value.type.tensor_type.shape.dim
            )
            for value in self.proto.graph.output
        }
        return DeviceModel(self.proto.SerializeToString(), inputs, outputs, self.weights)


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


class SizeTensors(ABC, Generic[G, T]):
    """Sizes in a graph as tensors, each computed once.

    The graph, which has this object, is passed on: each would keep the other alive.

    sources   the sizes that the graph has, each with what reads it, a tensor [1]
    """

    def __init__(self) -> None:
        self.sources: dict[Expression, Callable[[G], T]] = {}
        self._made: dict[tuple[Expression, ...], T] = {}

    @abstractmethod
    def _constant(self, graph: G, numbers: list[int]) -> T:
        """Return a constant [n]."""

    @abstractmethod
    def _computed(self, graph: G, op_type: str, *inputs: T) -> T:
        """Return the result of Concat, or of two tensors [1]; raises Inexpressible."""

    def vector(self, graph: G, sizes: Sequence[int]) -> T:
        """The sizes as a tensor [n]; raises Inexpressible."""
        return self._of(graph, *map(Expression.of, sizes))

    def _of(self, graph: G, *key: Expression) -> T:
        if key not in self._made:
            made = self._joined(graph, key) if len(key) > 1 else self._new(graph, *key)
            self._made[key] = made
        return self._made[key]

    def _joined(self, graph: G, key: tuple[Expression, ...]) -> T:
        parts = list[T]()
        for known, group in groupby(key, lambda e: e.constant is not None):
            if known:
                parts.append(self._constant(graph, [e.constant or 0 for e in group]))
            else:
                parts += [self._of(graph, e) for e in group]
        return parts[0] if len(parts) == 1 else self._computed(graph, "Concat", *parts)

    def _new(self, graph: G, expression: Expression) -> T:
        """The value of an expression by that of its terms, or of the factors of its only one."""
        if expression in self.sources:
            return self.sources[expression](graph)
        if expression.constant is not None:
            return self._constant(graph, [expression.constant])
        (monomial, factor), *others = expression.terms
        if others:
            how, parts = "Add", expression.terms
        elif factor != 1:
            how, parts = "Mul", ((monomial, 1), ((), factor))
        elif len(monomial) > 1:
            how, parts = "Mul", tuple(((atom,), 1) for atom in monomial)
        else:
            return self._atom(graph, *monomial)
        values = [self._of(graph, Expression((part,))) for part in parts]
        return reduce(partial(self._computed, graph, how), values)

    def _atom(self, graph: G, atom: Atom) -> T:
        """The value of a quotient, rounded down, where ONNX's Div rounds towards zero."""
        if not isinstance(atom, Quotient):
            raise Inexpressible(f"the size {atom} is no size of a tensor that there is")
        dividend, divisor = self._of(graph, atom.dividend), self._of(graph, atom.divisor)
        least = atom.dividend.least
        if least is None or least < 0:
            rest = self._computed(graph, "Mod", dividend, divisor)  # has the divisor's sign
            dividend = self._computed(graph, "Sub", dividend, rest)
        return self._computed(graph, "Div", dividend, divisor)


class SizeNodes(SizeTensors["OnnxGraph", str]):
    """Sizes in a graph of ONNX as int64 tensors."""

    def enter(self, name: str, dims: Iterable[int | None]) -> None:
        """Declare an input of the graph, whose sizes are known in a run."""
        for axis, dim in enumerate(dims):
            if isinstance(dim, Size):
                self.sources.setdefault(dim.expression, partial(_axis, name, axis))

    def enter_contents(self, name: str, numbers: Iterable[int]) -> None:
        """Declare an input of the graph, an INT32 vector of sizes."""
        for index, number in enumerate(numbers):
            if isinstance(number, Size):
                self.sources.setdefault(number.expression, partial(_element, name, index))

    def _constant(self, graph: OnnxGraph, numbers: list[int]) -> str:
        return graph.ints(numbers)

    def _computed(self, graph: OnnxGraph, op_type: str, *inputs: str) -> str:
        if op_type == "Concat":
            return graph.node(op_type, *inputs, axis=0)
        return graph.node(op_type, *inputs)


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

    def activated(self, value: str, activation: int, dtype: type[np.generic] = np.float32) -> str:
        """Return numbers of this type after a fused activation."""
        if activation == FuseCode.NONE:
            return value
        if activation == FuseCode.RELU:
            return self.node("Relu", value)
        ends = (self.constants.array(np.array(e, dtype)) for e in activation_range(activation))
        return self.node("Clip", value, *ends)

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
        return self.constants.array(np.array(values, np.int64))

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
