"""What a provider decided for a model: which nodes go to NNAPI, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ep_nnapi.rejection import Rejection


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster: node names, the tensors that cross its border and their bytes, its device."""

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    boundary_bytes: int
    device: str


@dataclass(frozen=True, slots=True)
class GraphReport:
    """The decisions for one graph (the main graph or an inner one)."""

    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The decisions for a model.

    nodes      as GetCapability sees them: after ONNX Runtime's basic optimization, inner graphs in
    capable    of these, how many have a lowering
    taken      of these, how many run on NNAPI
    """

    feature_level: int
    target: str
    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]

    @property
    def taken(self) -> int:
        """Nodes in clusters."""
        return sum(len(c.nodes) for c in self.clusters)

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`, the form that `check --json` prints."""
        return {
            "feature_level": self.feature_level,
            "target": self.target,
            "nodes": self.nodes,
            "capable": self.capable,
            "taken": self.taken,
            "clusters": [
                {
                    "nodes": list(c.nodes),
                    "inputs": list(c.inputs),
                    "outputs": list(c.outputs),
                    "boundary_bytes": c.boundary_bytes,
                    "device": c.device,
                }
                for c in self.clusters
            ],
            "rejections": [
                {"node": r.node, "op_type": r.op_type, "reason": str(r.reason), "detail": r.detail}
                for r in self.rejections
            ],
        }


def combine(feature_level: int, target: str, graphs: Iterable[GraphReport]) -> Report:
    """One report of a model's graphs."""
    parts = list(graphs)
    return Report(
        feature_level,
        target,
        sum(g.nodes for g in parts),
        sum(g.capable for g in parts),
        tuple(c for g in parts for c in g.clusters),
        tuple(r for g in parts for r in g.rejections),
    )
