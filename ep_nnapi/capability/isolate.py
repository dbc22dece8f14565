"""Nodes on which a step over a whole graph fails: found and hidden, so that others are taken.

Such a failure is a defect of ep-nnapi. It must cost the node that it is about, not the planning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ep_nnapi.errors import OptionError
from ep_nnapi.graph.graph import NO_ATTRIBUTES, Graph, GraphNode

logger = logging.getLogger(__name__)
T = TypeVar("T")

_MOST = 8
"""Nodes looked for one by one: each search repeats the step as often as it halves the graph."""


@dataclass(frozen=True, slots=True)
class Isolated(Generic[T]):
    """What a step made of a graph, and by id the nodes that were hidden from it, with why."""

    result: T
    defects: Mapping[int, Exception]


def isolate(graph: Graph, step: Callable[[Graph], T]) -> Isolated[T]:
    """Runs `step` on `graph`, without the nodes on which it fails.

    A hidden node keeps its id, its name and its tensors; its operator is one that nothing knows.
    Where hiding single nodes does not help, all are hidden. Raises OptionError, which is the
    user's, and what `step` raises with every node hidden.
    """
    defects: dict[int, Exception] = {}
    while True:
        seen = _hidden(graph, defects)
        try:
            return Isolated(step(seen), defects)
        except OptionError:
            raise
        except Exception as error:
            if len(defects) == len(graph.nodes):
                raise
            culprit = _culprit(seen, step)
            if len(defects) == _MOST or culprit.id in defects:
                logger.warning("a graph cannot be planned around single nodes; it is left")
                defects = {**{n.id: error for n in graph.nodes}, **defects}
                continue
            defects[culprit.id] = error


def _culprit(graph: Graph, step: Callable[[Graph], T]) -> GraphNode:
    """The last node of the shortest beginning of the graph on which `step` fails."""
    works, fails = 0, len(graph.nodes)
    while fails - works > 1:
        middle = (works + fails) // 2
        try:
            step(replace(graph, nodes=graph.nodes[:middle]))
        except Exception:  # the same defect, or one of a graph that is cut off: earlier in both
            fails = middle
        else:
            works = middle
    return graph.nodes[fails - 1]


def _hidden(graph: Graph, ids: Collection[int]) -> Graph:
    return replace(graph, nodes=tuple(_hide(n) if n.id in ids else n for n in graph.nodes))


def _hide(node: GraphNode) -> GraphNode:
    return replace(node, op_type="Hidden", domain="ep_nnapi.hidden", attributes=NO_ATTRIBUTES)
