"""What a provider decided for a model: which nodes go to NNAPI, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ep_nnapi.errors import ModelError, Note, Rejection

_SHOWN = 10  # clusters, and
_WIDTH = 160  # columns of a line, of what Python shows of a report


def counted(op_types: Iterable[str]) -> str:
    """How many there are of each, the most frequent first: `2 Conv, 1 Gemm`."""
    return ", ".join(f"{n} {name}" for name, n in Counter(op_types).most_common())


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster: node names, the tensors that cross its border and their bytes, its device.

    op_types  the operators of the nodes, in their order
    """

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    boundary_bytes: int
    device: str
    op_types: tuple[str, ...] = ()

    @property
    def operators(self) -> str:
        """How many nodes of each operator, the most frequent first: `2 Conv, 1 Gemm`."""
        return counted(self.op_types)

    @property
    def ends(self) -> str:
        """The first and the last node."""
        first, last = self.nodes[0], self.nodes[-1]
        return first if first == last else f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class GraphReport:
    """The decisions for one graph (the main graph or an inner one).

    least  clusters that any partition of the nodes in clusters has at least
    """

    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]
    notes: tuple[Note, ...] = ()
    least: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The decisions for a model.

    nodes      as GetCapability sees them: after ONNX Runtime's basic optimization, inner graphs in
    capable    of these, how many have a lowering
    taken      of these, how many run on NNAPI
    notes      on nodes that run on NNAPI otherwise than a user may expect
    least      clusters that any partition of the nodes in clusters has at least
    """

    feature_level: int
    target: str
    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]
    notes: tuple[Note, ...] = ()
    least: int = 0

    @property
    def taken(self) -> int:
        """Nodes in clusters."""
        return sum(len(c.nodes) for c in self.clusters)

    @property
    def boundary_bytes(self) -> int:
        """Bytes that cross the borders of all clusters."""
        return sum(c.boundary_bytes for c in self.clusters)

    def __repr__(self) -> str:
        """At most a screenful; `to_json` has everything."""
        lines = [f"<Report: {self.summary}, target {self.target}"]
        shown = self.clusters[:_SHOWN]
        lines += [f"  cluster {i}: {c.operators} ({c.ends})" for i, c in enumerate(shown)]
        if len(self.clusters) > _SHOWN:
            lines.append(f"  and {len(self.clusters) - _SHOWN} more clusters")
        reasons = Counter(r.reason for r in self.rejections)
        for reason, _ in reasons.most_common():
            operators = counted(r.op_type for r in self.rejections if r.reason is reason)
            lines.append(f"  left to the CPU for {reason}: {operators}")
        return (
            "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}..." for line in lines)
            + ">"
        )

    @property
    def summary(self) -> str:
        """How much of the model NNAPI takes, in one clause."""
        nodes = "node" if self.nodes == 1 else "nodes"
        clusters = "cluster" if len(self.clusters) == 1 else "clusters"
        return (
            f"NNAPI takes {self.taken} of {self.nodes} {nodes} in {len(self.clusters)} {clusters} "
            f"at feature level {self.feature_level}"
        )

    @property
    def proof(self) -> str:
        """What is known of the fewest clusters: `7 clusters, at least 6`."""
        count = len(self.clusters)
        clusters = "1 cluster" if count == 1 else f"{count} clusters"
        return f"{clusters}, " + (
            "proven minimal" if self.least >= count else f"at least {self.least}"
        )

    def grown(self, baseline: Mapping[str, object]) -> list[str]:
        """In which ways it is worse than an earlier report in its JSON form.

        More clusters, or more bytes over their borders. Raises ModelError for other JSON.
        """
        clusters = baseline.get("clusters")
        if not isinstance(clusters, list) or not all(isinstance(c, dict) for c in clusters):
            raise ModelError("the baseline is no report of `check --json`: it has no clusters")
        before = {
            "clusters": len(clusters),
            "border bytes": sum(int(c.get("boundary_bytes", 0)) for c in clusters),
        }
        now = {"clusters": len(self.clusters), "border bytes": self.boundary_bytes}
        return [
            f"{name} grew from {before[name]} to {now[name]}"
            for name in now
            if now[name] > before[name]
        ]

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
            "notes": [
                {"node": n.node, "op_type": n.op_type, "detail": n.detail} for n in self.notes
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
        tuple(n for g in parts for n in g.notes),
        sum(g.least for g in parts),
    )
