"""Root causes of rejections, and their grouping by kind.

A rejection follows from another if its detail names a rejected node, or a tensor computed by a node
rejected for the same reason: the same remedy helps both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ep_nnapi.errors import Note, Rejection
from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.nnapi.errors import Reason

_PUNCTUATION = ",;:."


def with_root_causes(
    graph: Graph, refused: Mapping[int, tuple[Rejection, ...]]
) -> Iterator[Rejection]:
    """Yields the rejections in graph order, with the first node each follows from, and its kind."""
    roots: dict[str, str] = {}
    computed: dict[tuple[Reason, str], str] = {}
    for node in graph.nodes:
        for part, refusal in zip(node.originals, refused.get(node.id, ()), strict=False):
            reason = refusal.reason
            words = [word.strip(_PUNCTUATION) for word in refusal.detail.split(" ")]
            found = [w for w in words if w in roots or (reason, w) in computed]
            named = (roots.get(w) or computed.get((reason, w)) for w in found)
            caused_by = refusal.caused_by or next((n for n in named if n and n != refusal.node), "")
            root = roots[refusal.node] = caused_by or refusal.node
            for value in outputs_of(part):
                computed[reason, value.name] = root
            yield replace(refusal, caused_by=caused_by, kind=kind(refusal.detail, part))


def notes_of(notes: Iterable[tuple[GraphNode, str]]) -> tuple[Note, ...]:
    """Creates notes with their kinds from nodes and texts."""
    return tuple(Note(n.name, n.op_type, text, kind(text, n)) for n, text in notes)


def kind(text: str, node: GraphNode) -> str:
    """The text with the names of the node and its tensors as *, so that nodes can be grouped."""
    names = {node.name, *(v.name for p in node.originals for v in (*inputs_of(p), *outputs_of(p)))}
    return " ".join("*" if w.strip(_PUNCTUATION) in names else w for w in text.split(" "))
