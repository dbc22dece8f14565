"""Small models for measuring devices: chains of additions, and one for each operator family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ep_nnapi.costs.cost_model import CostClass, cost_class, work
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import Attribute, Graph, GraphNode
from ep_nnapi.graph.to_onnx import model_of
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.quantization.propagate import propagate_quantization

OPSETS = {"": 17}
SMALL, LARGE = 64, 1 << 17  # floats: negligible, and typical of mobile networks
SHORT, LONG = 1, 9  # additions in a chain


@dataclass(frozen=True, slots=True)
class Probe:
    """A sequence of nodes from one input to one output."""

    nodes: tuple[GraphNode, ...]

    @property
    def model(self) -> bytes:
        """The ONNX model."""
        ends = [self._input], [self._output]
        return bytes(model_of(self.nodes, *ends, OPSETS).SerializeToString())

    @property
    def feeds(self) -> Mapping[str, Array]:
        """Input data: evenly spaced small numbers."""
        x = self._input
        numbers = np.linspace(0, 1, int(np.prod(x.shape)), dtype=np.float32).reshape(x.shape)
        return {
            x.name: (numbers * 200 if x.dtype is DType.UINT8 else numbers).astype(x.dtype.numpy)
        }

    @property
    def border(self) -> int:
        """Size of the input and the output, in bytes."""
        return bytes_of(self._input) + bytes_of(self._output)

    @property
    def _input(self) -> Value:
        return next(v for v in self.nodes[0].inputs if v is not None)

    @property
    def _output(self) -> Value:
        return next(v for v in self.nodes[-1].outputs if v is not None)

    @property
    def grouped_nodes(self) -> tuple[GraphNode, ...]:
        """The nodes as the cost model counts them, with a QDQ group as one node."""
        graph = Graph("probe", self.nodes, (self._input,), (self._output,), OPSETS)
        return propagate_quantization(graph).nodes

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of all nodes."""
        return sum(work(n).macs for n in self.grouped_nodes)

    @property
    def bytes(self) -> int:
        """Number of bytes that all nodes read and write."""
        return sum(work(n).bytes for n in self.grouped_nodes)


def chain(length: int, size: int) -> Probe:
    """Returns a chain of `length` additions: x + x, + x and so on, with `size` floats."""
    x = _float("x", size)
    sums = [x, *(_float(f"sum{i}", size) for i in range(length))]
    return Probe(tuple(_node(i, "Add", (sums[i], x), sums[i + 1]) for i in range(length)))


def family_probes() -> Iterator[tuple[CostClass, Probe]]:
    """Yields a probe for each operator family, with sizes typical of mobile networks."""
    image = _float("x", 1, 32, 56, 56)
    pads = {"pads": (1, 1, 1, 1)}
    for family, probe in (
        (
            CostClass.CONVOLUTION,
            _single_node("Conv", (image, _weights(32, 32, 3, 3)), image.shape, **pads),
        ),
        (
            CostClass.DEPTHWISE,
            _single_node("Conv", (image, _weights(32, 1, 3, 3)), image.shape, group=32, **pads),
        ),
        (
            CostClass.PRODUCT,
            _single_node("MatMul", (_float("x", 64, 256), _weights(256, 512)), (64, 512)),
        ),
        (CostClass.RECURRENT, _lstm(16, 64)),
        (CostClass.QUANTIZED, _quantized(image, (32, 32, 3, 3))),
        (CostClass.FUNCTION, _single_node("Sigmoid", (image,), image.shape)),
        (CostClass.OTHER, _single_node("Mul", (image, _weights(32, 1, 1)), image.shape)),
    ):
        if {cost_class(n) for n in probe.grouped_nodes} != {family}:
            raise AssertionError(f"the probe of {family} is of another family")
        yield family, probe


def _float(name: str, *shape: int) -> Value:
    return Value(name, DType.FLOAT, shape)


def _weights(*shape: int) -> Value:
    """Returns a constant with small varied numbers."""
    count = int(np.prod(shape))
    array = (np.arange(count, dtype=np.float32) % 17 / 16 - 0.4).reshape(shape)
    return _constant(f"w{count}", array)


def _constant(name: str, array: Array) -> Value:
    constant = Constant.of(array)
    return Value(name, constant.dtype, constant.shape, constant=constant)


def _node(
    number: int, op_type: str, inputs: Sequence[Value | None], output: Value, **given: Attribute
) -> GraphNode:
    name = f"{op_type}{number}"
    return GraphNode(number, name, op_type, "", 13, tuple(inputs), (output,), given)


def _single_node(
    op_type: str, inputs: Sequence[Value | None], shape: tuple[int, ...], **given: Attribute
) -> Probe:
    return Probe((_node(0, op_type, inputs, _float("y", *shape), **given),))


def _lstm(steps: int, size: int) -> Probe:
    weights = [_constant(n, np.full((1, 4 * size, size), 0.01, np.float32)) for n in ("w", "r")]
    inputs = (_float("x", steps, 1, size), *weights)
    return _single_node("LSTM", inputs, (steps, 1, 1, size), hidden_size=size)


def _quantized(image: Value, filters: tuple[int, ...]) -> Probe:
    """Returns a convolution as a QDQ group."""
    scale, zero = (
        _constant("s", np.array(0.02, np.float32)),
        _constant("z", np.array(100, np.uint8)),
    )
    x, y = (Value(n, DType.UINT8, image.dims) for n in "xy")
    weights = _constant("w", (np.arange(np.prod(filters)) % 200).astype(np.uint8).reshape(filters))
    real = {n: _float(f"real {n}", *v.shape) for n, v in (("x", x), ("w", weights), ("y", y))}
    conv = _node(2, "Conv", (real["x"], real["w"]), real["y"], pads=(1, 1, 1, 1))
    return Probe(
        (
            _node(0, "DequantizeLinear", (x, scale, zero), real["x"]),
            _node(1, "DequantizeLinear", (weights, scale, zero), real["w"]),
            conv,
            _node(3, "QuantizeLinear", (real["y"], scale, zero), y),
        )
    )
