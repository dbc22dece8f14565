"""Cost model: estimated microseconds of nodes and clusters on the CPU provider and on NNAPI."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping

from ep_nnapi.costs.work import CostClass, cost_class, work
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.nnapi.immutable import frozen
from partitioner import Costs

logger = logging.getLogger(__name__)


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
