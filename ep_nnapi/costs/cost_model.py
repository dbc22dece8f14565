"""Cost model: the work of nodes, and microseconds for it on the CPU provider and on NNAPI."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators import OPS
from partitioner import Costs

Shape: TypeAlias = tuple[int, ...]


class CostClass(StrEnum):
    """Operator families with about the same time per multiply-accumulate.

    quantized   convolutions and matrix products of 8-bit tensors
    function    element-wise functions such as exp: work is counted in elements
    other       element-wise arithmetic and data movement: work is counted in elements
    """

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    PRODUCT = "product"
    RECURRENT = "recurrent"
    QUANTIZED = "quantized"
    FUNCTION = "function"
    OTHER = "other"


@frozen
class Work:
    """Multiply-accumulates, and bytes read and written (including weights)."""

    macs: int = 0
    bytes: int = 0


def work(node: GraphNode) -> Work:
    """Returns the work of a node; unknown dimensions count as 1."""
    weights = sum(bytes_of(v) for v in node.inputs if v is not None and v.constant is not None)
    moved = sum(bytes_of(v) for v in (*inputs_of(node), *outputs_of(node)))
    shapes = [_shape(v) for v in node.inputs]
    out = _shape(next(iter(outputs_of(node)), None))
    _, count = MACS.get(node.op_type, (CostClass.OTHER, None))
    return Work(count(shapes, out) if count and len(shapes) > 1 else prod(out), moved + weights)


def cost_class(node: GraphNode) -> CostClass:
    """Returns the family of a node, from its operator, data types and convolution groups."""
    if node.op_type in FUNCTIONS:
        return CostClass.FUNCTION
    family, _ = MACS.get(node.op_type, (CostClass.OTHER, None))
    if family in (CostClass.OTHER, CostClass.RECURRENT):
        return family
    if node.quantized or node.op_type.startswith("QLinear"):
        return CostClass.QUANTIZED
    filters = _shape(node.inputs[1]) if len(node.inputs) > 1 else ()
    depthwise = family is CostClass.CONVOLUTION and node.attributes.get("group", 1) != 1
    return CostClass.DEPTHWISE if depthwise and filters[1:2] == (1,) else family


def _shape(value: Value | None) -> Shape:
    if value is None or value.dims is None:
        return ()
    return tuple(d if isinstance(d, int) else 1 for d in value.dims)


def _convolution(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element one filter [C / group, kH, kW]."""
    return prod(out) * prod(inputs[1][1:])


def _transposed(inputs: list[Shape], out: Shape) -> int:
    """Counts for each input element one filter [O / group, kH, kW]."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def _product(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element the size of the inner dimension."""
    return prod(out) * (prod(inputs[0]) // max(1, prod(inputs[0][:-1])))


def _recurrent(inputs: list[Shape], out: Shape) -> int:
    """Counts for each step and batch entry the input weights and the recurrent weights."""
    steps = prod(inputs[0][:2])
    return steps * sum(prod(s) for s in inputs[1:3])


MACS: Mapping[str, tuple[CostClass, Callable[[list[Shape], Shape], int]]] = {
    "Conv": (CostClass.CONVOLUTION, _convolution),
    "FusedConv": (CostClass.CONVOLUTION, _convolution),
    "QLinearConv": (CostClass.CONVOLUTION, _convolution),
    "ConvTranspose": (CostClass.CONVOLUTION, _transposed),
    "Gemm": (CostClass.PRODUCT, _product),
    "MatMul": (CostClass.PRODUCT, _product),
    "FusedMatMul": (CostClass.PRODUCT, _product),
    "MatMulNBits": (CostClass.PRODUCT, _product),
    "DynamicQuantizeLSTM": (CostClass.RECURRENT, _recurrent),
    "LSTM": (CostClass.RECURRENT, _recurrent),
    "GRU": (CostClass.RECURRENT, _recurrent),
    "RNN": (CostClass.RECURRENT, _recurrent),
}
"""Counting functions by operator; for all others the work is the number of output elements."""

FUNCTIONS = frozenset(o.op_type for o in OPS if o.function)
"""Operators that compute a function of each element, mostly with exp."""


logger = module_logger(__name__)


@frozen
class Rates:
    """Costs of one provider in microseconds.

    per_node   for each node that runs
    per_byte   for each byte read or written
    per_mac    for each multiply-accumulate, by operator family
    """

    per_node: float
    per_byte: float
    per_mac: Mapping[CostClass, float]

    def time(self, node: GraphNode) -> float:
        """Returns the estimated time of a node; `per_node` alone if its work cannot be counted."""
        try:
            done = work(node)
        except Exception:  # a bug in one operator's count must not abort planning
            logger.exception("the work of %s (%s) cannot be counted", node.name, node.op_type)
            return self.per_node
        macs = done.macs * self.per_mac[cost_class(node)]
        return self.per_node + done.bytes * self.per_byte + macs


@frozen
class CostModel:
    """Costs of running nodes on the CPU provider or on NNAPI, in microseconds.

    cpu, nnapi   rates of the two providers
    per_byte     for each byte of a tensor that enters or leaves a cluster
    per_cluster  for each run of a cluster
    """

    cpu: Rates
    nnapi: Rates
    per_byte: float
    per_cluster: float

    def costs(self, nodes: Iterable[GraphNode]) -> Costs:
        """Returns the costs of a graph's nodes, by node id."""
        here: dict[Hashable, float] = {}
        there: dict[Hashable, float] = {}
        for node in nodes:
            here[node.id] = self.cpu.time(node)
            there[node.id] = self.nnapi.time(node)
        return Costs(here, there, self.per_byte, self.per_cluster)


def mean(costs: Sequence[Costs]) -> Costs:
    """Returns the mean costs of the same nodes, of several sizes."""
    first, count = costs[0], len(costs)
    here, there = (
        {node: sum(side[node] for side in sides) / count for node in sides[0]}
        for sides in ([c.here for c in costs], [c.there for c in costs])
    )
    return Costs(here, there, first.per_byte, first.per_cluster)


def _uniform(per_mac: float) -> dict[CostClass, float]:
    return dict.fromkeys(CostClass, per_mac)


PHONE = CostModel(
    cpu=Rates(per_node=2.0, per_byte=1e-4, per_mac=_uniform(5e-5)),
    nnapi=Rates(per_node=2.0, per_byte=1e-4, per_mac=_uniform(1e-5)),
    per_byte=5e-4,
    per_cluster=500.0,
)
"""The default model without a calibration: a phone whose accelerator is five times as fast.

The numbers are round because the partitioning depends on their ratios alone:
- the CPU provider computes 20 G multiply-accumulates per second (a few big cores with two 4-wide
  vector operations per cycle at 50 % efficiency), the accelerator 100 G;
- both share the same memory at 10 GB/s, with an overhead of 2 us per node;
- a byte that enters or leaves a cluster costs as much as five bytes inside: it is copied to memory
  shared with the driver's process, and caches are written back, at about 2 GB/s;
- a run of a cluster costs half a millisecond of latency, as the driver is another process. Android
  tells driver vendors that a few milliseconds would make users prefer the CPU.
A single cluster is therefore faster on NNAPI from about 12 million multiply-accumulates on:
MobileNet (300 million) is, a small digit classifier is not.
Source: source.android.com, NNAPI driver implementation best practices, "Reduce minimal latency".
"""
