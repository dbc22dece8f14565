"""The refusals that follow from others, and those of one kind.

A refusal follows from another where it names a node that is refused itself, or a tensor computed by
a node that is refused for the same reason: what would help the one helps the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ep_nnapi.errors import Note, Reason, Rejection
from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode

_PUNCTUATION = ",;:."


def linked(graph: Graph, refused: Mapping[int, tuple[Rejection, ...]]) -> Iterator[Rejection]:
    """The refusals in the graph's order, each with the first one it follows from, and its kind."""
    roots: dict[str, str] = {}
    computed: dict[tuple[Reason, str], str] = {}
    for node in graph.nodes:
        for part, refusal in zip(node.originals, refused.get(node.id, ()), strict=False):
            words = _words(refusal.detail)
            named = (roots.get(w) or computed.get((refusal.reason, w)) for w in words)
            follows = refusal.follows or next((n for n in named if n and n != refusal.node), "")
            root = roots[refusal.node] = follows or refusal.node
            for value in outputs_of(part):
                computed[refusal.reason, value.name] = root
            yield replace(refusal, follows=follows, kind=kind(refusal.detail, part))


def noted(notes: Iterable[tuple[GraphNode, str]]) -> tuple[Note, ...]:
    """Notes with their kinds."""
    return tuple(Note(n.name, n.op_type, text, kind(text, n)) for n, text in notes)


def kind(text: str, node: GraphNode) -> str:
    """The text without the names of the node and its tensors, the same for many nodes."""
    names = {node.name, *(v.name for p in node.originals for v in (*inputs_of(p), *outputs_of(p)))}
    return " ".join("*" if w.strip(_PUNCTUATION) in names else w for w in text.split(" "))


def _words(text: str) -> Iterator[str]:
    for word in text.split(" "):
        yield word.strip(_PUNCTUATION)
