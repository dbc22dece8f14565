"""Writes an ONNX model node by node, with seeded weights."""

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

Array = npt.NDArray[np.generic]
Attribute = int | float | str | Sequence[int] | Sequence[float]
Dim = int | str

OPSET = 17
IR_VERSION = 8  # the one that came with opset 17


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph: its name, and how many channels (or features) it has."""

    name: str
    width: int

    def wide(self, width: int) -> "Tensor":
        """The same value, known to have `width` channels (or features)."""
        return Tensor(self.name, width)


class Graph:
    """A model in the making. Names are numbered, weights are drawn from one seeded generator."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[Dim], dtype: int = TensorProto.FLOAT) -> Tensor:
        """A graph input; strings in `shape` are symbolic dimensions.

        Its width is the second of four dimensions (channels), otherwise the last.
        """
        self._inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        width = shape[1 if len(shape) == 4 else -1]
        return Tensor(name, width if isinstance(width, int) else 0)

    def output(self, x: Tensor, name: str, dtype: int = TensorProto.FLOAT) -> None:
        """Makes `x` a graph output called `name`."""
        for node in self._nodes:
            _rename(node.input, x.name, name)
            _rename(node.output, x.name, name)
        self._outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def weight(self, value: Array, name: str = "") -> Tensor:
        """An initializer; unnamed ones are numbered. Its width is its last dimension, or 1."""
        name = name or f"weight_{len(self._weights)}"
        self._weights[name] = numpy_helper.from_array(value, name)
        return Tensor(name, value.shape[-1] if value.ndim else 1)

    def scalar(self, value: float) -> Tensor:
        """A float initializer of rank 0, written once however often it is asked for."""
        name = f"scalar_{value:g}"
        if name in self._weights:
            return Tensor(name, 1)
        return self.weight(np.array(value, np.float32), name)

    def ints(self, *values: int) -> Tensor:
        """An int64 initializer of rank 1, written once however often it is asked for."""
        name = "ints_" + "_".join(map(str, values))
        if name in self._weights:
            return Tensor(name, len(values))
        return self.weight(np.array(values, np.int64), name)

    def normal(self, *shape: int, std: float) -> Tensor:
        """A normally distributed float initializer."""
        return self.weight(self.rng.standard_normal(shape, np.float32) * np.float32(std))

    def uniform(self, *shape: int, low: float, high: float) -> Tensor:
        """A uniformly distributed float initializer."""
        return self.weight(self.rng.uniform(low, high, shape).astype(np.float32))

    def add(self, op: str, *inputs: Tensor | None, **attributes: Attribute) -> Tensor:
        """The one output of a new node, as wide as the first input; None is one left out."""
        return self.add_many(op, inputs, 1, **attributes)[0]

    def add_many(
        self, op: str, inputs: Sequence[Tensor | None], outputs: int, **attributes: Attribute
    ) -> list[Tensor]:
        """All outputs of a new node, as wide as the first input; None is one left out."""
        name = f"{op}_{len(self._nodes)}"
        names = [name] if outputs == 1 else [f"{name}_{index}" for index in range(outputs)]
        node = helper.make_node(op, [x.name if x else "" for x in inputs], names, name)
        node.attribute.extend(helper.make_attribute(key, v) for key, v in attributes.items())
        self._nodes.append(node)
        width = next(x.width for x in inputs if x)
        return [Tensor(each, width) for each in names]

    def model(self) -> onnx.ModelProto:
        """The finished model; the shapes of its outputs are inferred."""
        weights = list(self._weights.values())
        light = [w for w in weights if w.data_type == TensorProto.INT64]
        shapes = [
            helper.make_tensor_value_info(w.name, w.data_type, w.dims)
            for w in weights
            if w.data_type != TensorProto.INT64
        ]
        without_floats = self._model([*self._inputs, *shapes], light)  # which may be 100 MB
        inferred = shape_inference.infer_shapes(without_floats, strict_mode=True, data_prop=True)
        for ours, theirs in zip(self._outputs, inferred.graph.output, strict=True):
            ours.CopyFrom(theirs)
        return self._model(self._inputs, weights)

    def _model(
        self, inputs: list[onnx.ValueInfoProto], weights: list[onnx.TensorProto]
    ) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, self.name, inputs, self._outputs, weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _rename(names: MutableSequence[str], old: str, new: str) -> None:
    for index, name in enumerate(names):
        if name == old:
            names[index] = new
