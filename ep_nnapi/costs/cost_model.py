"""What nodes, borders and clusters cost in microseconds, on the CPU provider and on NNAPI."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from ep_nnapi.costs.work import Family, family_of, work
from ep_nnapi.graph.graph import GraphNode
from partitioner import Costs

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rates:
    """Microseconds on one side, for each node, byte read or written, and multiply-accumulate."""

    per_node: float
    per_byte: float
    per_mac: Mapping[Family, float]

    def time(self, node: GraphNode) -> float:
        """How long a node takes there; as one without work where this cannot be estimated."""
        try:
            done = work(node)
        except Exception:  # a defect of one operator's count, which must not end the planning
            logger.exception("the work of %s (%s) cannot be counted", node.name, node.op_type)
            return self.per_node
        macs = done.macs * self.per_mac[family_of(node)]
        return self.per_node + done.bytes * self.per_byte + macs


@dataclass(frozen=True, slots=True)
class CostModel:
    """What it takes to leave nodes to the CPU provider, or to take them to NNAPI.

    cpu, nnapi   the two sides
    per_byte     of a tensor that crosses a border, once
    per_cluster  of each cluster, each time it runs
    """

    cpu: Rates
    nnapi: Rates
    per_byte: float
    per_cluster: float

    def costs(self, nodes: Iterable[GraphNode]) -> Costs:
        """The costs of a graph's nodes, by id."""
        here: dict[Hashable, float] = {}
        there: dict[Hashable, float] = {}
        for node in nodes:
            here[node.id] = self.cpu.time(node)
            there[node.id] = self.nnapi.time(node)
        return Costs(here, there, self.per_byte, self.per_cluster)


def _alike(per_mac: float) -> dict[Family, float]:
    return dict.fromkeys(Family, per_mac)


PHONE = CostModel(
    cpu=Rates(per_node=2.0, per_byte=1e-4, per_mac=_alike(5e-5)),
    nnapi=Rates(per_node=2.0, per_byte=1e-4, per_mac=_alike(1e-5)),
    per_byte=5e-4,
    per_cluster=500.0,
)
"""The model without a calibration: a phone whose accelerator computes five times as fast.

Round numbers, for the choice depends on their ratios alone:
- the CPU provider does 20 thousand million multiply-accumulates a second (a few big cores at two
  vectors of four a cycle, half of that lost), the accelerator 100 thousand million;
- both read and write the same memory, at 10 GB/s, and take 2 us to get from node to node;
- a byte at the border costs as much as five inside: it is copied to memory that is shared with
  the driver's process, and caches are written back, at about 2 GB/s;
- a cluster waits half a millisecond for its turn: the driver is another process. Android tells
  makers of drivers that a few milliseconds would drive users back to the CPU.
So a lone cluster pays from about 12 million multiply-accumulates on: MobileNet does, with 300
million, and a classifier of small digits does not.
Source: source.android.com, NNAPI driver implementation best practices, "Reduce minimal latency".
"""
