"""Partition of a DAG into few connected, convex clusters. Knows nothing of what the nodes are.

A graph is a `networkx.DiGraph` of any hashables. An edge may carry `tensors`, a dict from tensor
id to bytes; without it, it carries the one tensor of one byte that its maker has. A node may
carry `inputs` and `outputs`, such dicts of what comes from and leaves to outside the graph.

    partition     the clusters of the nodes that can be taken
    violations    what is wrong with clusters
    border_bytes  what crosses their borders
    worth_it      the clusters whose taking pays, given `Costs`; `savings` of clusters
    limited       clusters within limits of size and number
"""

from partitioner.check import violations
from partitioner.clusters import Partition, limited, partition
from partitioner.constraints import Budget
from partitioner.tensors import border_bytes
from partitioner.worth import Costs, GivenUp, Worth, savings, worth_it

__all__ = [
    "Budget",
    "Costs",
    "GivenUp",
    "Partition",
    "Worth",
    "border_bytes",
    "limited",
    "partition",
    "savings",
    "violations",
    "worth_it",
]
