"""ONNX graph under construction: nodes and constants, and the model proto made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
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
from ep_nnapi.nnapi.immutable import frozen

CONTRIB = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

_OPSET, _IR_VERSION = 21, 10
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

    def build(self) -> tuple[list[TensorProto], dict[str, Array]]:
        """Initializers, and the constants that are too large to be one."""
        tensors, weights = [], {}
        for name, make in self._values.items():
            value = np.asarray(make(), order="C")
            if value.nbytes > _INLINE:
                weights[name] = value
                continue
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            raw = value.tobytes()
            tensors.append(TensorProto(name=name, data_type=dtype, dims=value.shape, raw_data=raw))
        return tensors, weights


def _add_attribute(node: NodeProto, name: str, value: Attribute) -> None:
    """Add an attribute; `helper.make_attribute` takes five times as long for integers."""
    if type(value) is int:
        node.attribute.add(name=name, type=AttributeProto.INT, i=value)
    elif type(value) is tuple and value and set(map(type, value)) == {int}:
        node.attribute.add(name=name, type=AttributeProto.INTS, ints=value)
    else:
        node.attribute.append(helper.make_attribute(name, value))


def _without_unread_reshapes(nodes: Sequence[NodeProto], outputs: Set[str]) -> list[NodeProto]:
    """The nodes without reshapes whose results nothing reads."""
    kept, read = [], set(outputs)
    for node in reversed(nodes):
        if node.op_type != "Reshape" or node.output[0] in read:
            kept.append(node)
            read.update(node.input)
    return kept[::-1]


class OnnxGraph:
    """A graph to which nodes are added in topological order.

    shapes   of values, as far as they are known
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants = Constants()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._sources: dict[str, str] = {}
        self._inner: set[str] = set()  # results of nodes that are no outputs of the graph
        self._counter = 0

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
        source = self._sources.get(value, value) if min(sizes, default=1) > 0 else value
        if self.shapes.get(source) == tuple(sizes):
            return source
        name = self.node("Reshape", source, self.ints(sizes))
        self._sources[name] = source
        return name

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
        """Name of an int64 constant [n]: shapes, axes and the like."""
        return self.constants.array(np.array(values, np.int64))

    def build(self, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> Built:
        """The whole model."""
        nodes = _without_unread_reshapes(self.nodes, {value.name for value in outputs})
        graph = helper.make_graph(nodes, "nnapi", list(inputs), list(outputs))
        tensors, weights = self.constants.build()
        graph.initializer.extend(tensors)
        graph.input.extend(
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in weights.items()
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return Built(model, weights)
