"""Isolation of nodes on which a graph-wide step fails, so that the step succeeds for the others.

Such a failure is a defect of ep-nnapi. It must reject only the node at fault, not the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from ep_nnapi.graph.graph import NO_ATTRIBUTES, Graph, GraphNode
from ep_nnapi.nnapi.errors import OptionError, module_logger
from ep_nnapi.nnapi.immutable import frozen, replace

logger = module_logger(__name__)
T = TypeVar("T")

_MAX_ISOLATED = 8
"""Maximum nodes isolated one by one: each takes a bisection that repeats the step."""


@frozen
class Isolation(Generic[T]):
    """The result of a step, and the nodes hidden from it by id, each with its exception."""

    result: T
    defects: Mapping[int, Exception]


def isolate_defects(graph: Graph, step: Callable[[Graph], T]) -> Isolation[T]:
    """Runs `step` on `graph`, with the nodes on which it fails hidden.

    A hidden node keeps its id, name and tensors; its operator is replaced by an unknown one. If
    hiding single nodes does not help, all are hidden. Raises OptionError, as a user error, and any
    exception of `step` with all nodes hidden.
    """
    defects: dict[int, Exception] = {}
    while True:
        seen = _hide_nodes(graph, defects)
        try:
            return Isolation(step(seen), defects)
        except OptionError:
            raise
        except Exception as error:
            if len(defects) == len(graph.nodes):
                raise
            culprit = _culprit(seen, step)
            if len(defects) == _MAX_ISOLATED or culprit.id in defects:
                logger.warning(
                    "the analysis fails on many nodes of a graph; all are left to the CPU"
                )
                defects = {**{n.id: error for n in graph.nodes}, **defects}
                continue
            defects[culprit.id] = error


def _culprit(graph: Graph, step: Callable[[Graph], T]) -> GraphNode:
    """Bisects for the shortest prefix of the graph on which `step` fails; returns its last node."""
    works, fails = 0, len(graph.nodes)
    while fails - works > 1:
        middle = (works + fails) // 2
        try:
            step(replace(graph, nodes=graph.nodes[:middle]))
        except Exception:  # the same defect, or one due to the cut: either is in this prefix
            fails = middle
        else:
            works = middle
    return graph.nodes[fails - 1]


def _hide_nodes(graph: Graph, ids: Collection[int]) -> Graph:
    if not ids:
        return graph
    return replace(graph, nodes=tuple(_hide_node(n) if n.id in ids else n for n in graph.nodes))


def _hide_node(node: GraphNode) -> GraphNode:
    return replace(node, op_type="Hidden", domain="ep_nnapi.hidden", attributes=NO_ATTRIBUTES)
