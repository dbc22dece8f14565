"""Partition of a DAG into few connected, convex clusters. Knows nothing of what the nodes are.

A graph is a `networkx.DiGraph` of any hashables. An edge may carry `tensors`, a dict from tensor
id to bytes; without it, it carries the one tensor of one byte that its producer has. A node may
carry `inputs` and `outputs`, such dicts of what comes from and leaves to outside the graph.
"""

from partitioner.check import violations
from partitioner.clusters import partition

__all__ = ["partition", "violations"]
