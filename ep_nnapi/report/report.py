"""Report of the partitioning of a model: clusters on NNAPI, and rejections of other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from ep_nnapi.errors import Note, Rejection, SourceLine
from ep_nnapi.nnapi.errors import ModelError, Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.report import html as report_html

PREVIEW = ", with USE_FP16 previewed on nnapi-reference"
"""Clause of summaries where the host emulates the float16 that USE_FP16 allows."""
_SHOWN = 10  # clusters listed by Report.__repr__
_WIDTH = 160  # columns per line there


def operator_counts(op_types: Iterable[str]) -> str:
    """Number of each operator type, the most frequent first: `2 Conv, 1 Gemm`."""
    return ", ".join(f"{n} {name}" for name, n in Counter(op_types).most_common())


@frozen
class Notice:
    """One line for a session's log, at level WARNING or INFO."""

    text: str
    warning: bool = False


class Phase(StrEnum):
    """When it turned out that a device does not compute a cluster."""

    COMPILE = "compile"
    RUN = "run"


@frozen
class Substitute:
    """What computes a cluster, or some of its runs, in place of the device that was to.

    to      the NNAPI device nnapi-reference, or CPU_FALLBACK
    reason  one sentence
    """

    device: str
    to: str
    phase: Phase
    reason: str

    @property
    def for_many_reasons(self) -> Substitute:
        """The same for reasons that are too many to be told apart."""
        return replace(self, reason="further reasons")

    @property
    def text(self) -> str:
        """The clause "to in place of device (at compile): reason"."""
        return f"{self.to} in place of {self.device} (at {self.phase}): {self.reason}"

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON, without the device, which the cluster has."""
        return {"to": self.to, "phase": str(self.phase), "reason": self.reason}


@frozen
class FallbackRuns:
    """Runs of the cluster number `cluster` that a fallback computed instead of its device."""

    cluster: int
    by: Substitute
    runs: int

    @property
    def text(self) -> str:
        """One sentence."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"Cluster {self.cluster}: {runs} on {self.by.text}"

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        about = {"cluster": self.cluster, "from": self.by.device}
        return {**about, **self.by.to_json(), "runs": self.runs}


CPU_FALLBACK = "cpu"
"""The name of ONNX Runtime's CPU provider as a fallback."""


@frozen
class ClusterReport:
    """One cluster: node names, boundary tensors and their total bytes, and the device.

    device    computes the cluster
    substitute  how it took the place of a device that did not compile the cluster, if it did
    op_types  the operator types of the nodes, in the order of `nodes`
    cpu_us    estimated microseconds of a run on the CPU provider; None if it is not estimated
    nnapi_us  estimated microseconds of a run on NNAPI, boundary tensors included
    reason  why a session with the same options leaves the cluster to the CPU; None if it does not
    """

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    boundary_bytes: int
    device: str
    op_types: tuple[str, ...] = ()
    cpu_us: float | None = field(default=None, compare=False)
    nnapi_us: float | None = field(default=None, compare=False)
    substitute: Substitute | None = None
    reason: Reason | None = None

    @property
    def intended_device(self) -> str:
        """The device that was to compute the cluster."""
        return self.device if self.substitute is None else self.substitute.device

    @property
    def operators(self) -> str:
        """Number of nodes of each operator type, the most frequent first: `2 Conv, 1 Gemm`."""
        return operator_counts(self.op_types)

    @property
    def ends(self) -> str:
        """The names of the first and the last node."""
        first, last = self.nodes[0], self.nodes[-1]
        return first if first == last else f"{first} to {last}"

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "nodes": list(self.nodes),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "boundary_bytes": self.boundary_bytes,
            "device": self.device,
            **({} if self.reason is None else {"reason": self.reason}),
            **(
                {}
                if self.substitute is None
                else {"fallback": {"from": self.substitute.device, **self.substitute.to_json()}}
            ),
        }


@frozen
class NodeReport:
    """One node of a graph, as GetCapability sees it, for drawings of the graph.

    inputs    names of the values that it reads, and that its subgraphs read from outside
    outputs   names of its outputs
    types     data types and shapes of the outputs, where they are known: `float32 [1, 8, 14, 14]`
    cpu_us    estimated microseconds on the CPU provider; of a QDQ group, at its operator
    nnapi_us  estimated microseconds on NNAPI
    source    the place in a PyTorch program that it comes from, where the model records it
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[str, ...] = ()
    cpu_us: float = 0.0
    nnapi_us: float = 0.0
    source: SourceLine | None = None


DecidedNode: TypeAlias = tuple[NodeReport, int | None, Rejection | None]
"""A node with the number of its cluster in the whole report, or None and its rejection."""


@frozen
class GraphReport:
    """The partitioning of one graph (the main graph or a subgraph).

    lower_bound  lower bound on the number of clusters of any partition of the same nodes
    key          "" for the main graph, else the node and its attribute: "If_3.then_branch"
    outline      its nodes in topological order; () in sessions that need no drawing
    """

    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]
    notes: tuple[Note, ...] = ()
    lower_bound: int = 0
    key: str = ""
    outline: tuple[NodeReport, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The partitioning of a model.

    nodes        as GetCapability sees them: after ONNX Runtime's basic optimization, with subgraphs
    capable      number of nodes with a lowering
    taken        number of nodes that run on NNAPI
    notes        remarks on nodes that run on NNAPI in a way that a user may not expect
    lower_bound  lower bound on the number of clusters of any partition of the same nodes
    graphs       the reports of the single graphs; their clusters in this order are `clusters`
    preview      True if nnapi-reference emulates the float16 of USE_FP16
    digest       SHA-256 of the model's file, in hex; "" in a report on anything else
    """

    feature_level: int
    target: str
    nodes: int
    capable: int
    clusters: tuple[ClusterReport, ...]
    rejections: tuple[Rejection, ...]
    notes: tuple[Note, ...] = ()
    lower_bound: int = 0
    graphs: tuple[GraphReport, ...] = field(default=(), compare=False)
    preview: bool = False
    digest: str = field(default="", compare=False)

    def decided(self) -> Iterator[tuple[GraphReport, list[DecidedNode]]]:
        """Yields each graph, and its nodes with the decision on them."""
        first = 0
        for graph in self.graphs:
            clusters = {n: first + i for i, c in enumerate(graph.clusters) for n in c.nodes}
            rejections = {r.node: r for r in graph.rejections if r.node not in clusters}
            first += len(graph.clusters)
            yield (
                graph,
                [(n, clusters.get(n.name), rejections.get(n.name)) for n in graph.outline],
            )

    @property
    def taken(self) -> int:
        """Number of nodes in clusters."""
        return sum(len(c.nodes) for c in self.clusters)

    @property
    def substitutes(self) -> list[str]:
        """One sentence for each cluster that its device did not compile: what computes it."""
        found = enumerate(c.substitute for c in self.clusters)
        return [f"Cluster {i} on {each.text}" for i, each in found if each is not None]

    @property
    def boundary_bytes(self) -> int:
        """Total bytes of the boundary tensors of all clusters."""
        return sum(c.boundary_bytes for c in self.clusters)

    @property
    def cluster_rows(self) -> list[tuple[object, ...]]:
        """The cells of each cluster in a table with `CLUSTER_COLUMNS`."""
        return [
            (i, len(c.nodes), c.device, c.boundary_bytes, c.operators, c.ends)
            for i, c in enumerate(self.clusters)
        ]

    def __repr__(self) -> str:
        """A summary of at most a screenful; `to_json` is complete."""
        lines = [f"<Report: {self.summary}, target {self.target}"]
        shown = self.clusters[:_SHOWN]
        lines += [f"  cluster {i}: {c.operators} ({c.ends})" for i, c in enumerate(shown)]
        if len(self.clusters) > _SHOWN:
            lines.append(f"  and {len(self.clusters) - _SHOWN} more clusters")
        reasons = Counter(r.reason for r in self.rejections)
        for reason, _ in reasons.most_common():
            operators = operator_counts(r.op_type for r in self.rejections if r.reason is reason)
            lines.append(f"  left to the CPU for {reason}: {operators}")
        lines += [f"  {text}" for text in self.substitutes]
        return (
            "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}..." for line in lines)
            + ">"
        )

    def _repr_html_(self) -> str:
        """Tables of clusters and of rejections by reason, for notebooks."""
        clusters = report_html.table(report_html.CLUSTER_COLUMNS, self.cluster_rows)
        parts = (
            report_html.paragraphs([f"{self.summary}, target {self.target}."]),
            clusters if self.clusters else "",
            report_html.paragraphs(self.substitutes),
            report_html.rejection_tables(self.rejections),
        )
        return f"<div>{''.join(parts)}</div>"

    @property
    def summary(self) -> str:
        """The numbers of nodes and clusters on NNAPI, in one clause."""
        nodes = "node" if self.nodes == 1 else "nodes"
        clusters = "cluster" if len(self.clusters) == 1 else "clusters"
        return (
            f"NNAPI takes {self.taken} of {self.nodes} {nodes} in {len(self.clusters)} {clusters} "
            f"at feature level {self.feature_level}"
            f"{PREVIEW if self.preview and self.clusters else ''}"
        )

    @property
    def minimality(self) -> str:
        """The number of clusters and its lower bound: `7 clusters, at least 6`."""
        count = len(self.clusters)
        clusters = "1 cluster" if count == 1 else f"{count} clusters"
        return f"{clusters}, " + (
            "proven minimal" if self.lower_bound >= count else f"at least {self.lower_bound}"
        )

    def regressions(self, baseline: Mapping[str, object]) -> list[str]:
        """Regressions against an earlier report in JSON form, one clause each.

        A regression is another model, fewer nodes on NNAPI, more nodes on the CPU, more clusters or
        boundary bytes, or a reason that no operator of the type had. The model is the same if its
        digest or the names of its nodes are. Raises ModelError if the baseline is not a report of
        `check --json`.
        """
        try:
            before = _Baseline.of(baseline)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise ModelError("the baseline is no report of `check --json`") from None
        now = _Baseline.of(self.to_json())
        names, known = now.names - before.names, before.names - now.names
        if (names or known) and (not now.digest or now.digest != before.digest):
            return [f"the model is another ({len(names)} nodes new and {len(known)} gone)"]
        found = []
        if now.left > before.left or (now.left == before.left and now.taken < before.taken):
            taken = f"{before.taken} of {before.taken + before.left} to {now.taken} of {self.nodes}"
            found.append(f"nodes on NNAPI fell from {taken}")
        for name in ("clusters", "border bytes"):
            if now.sizes[name] > before.sizes[name]:
                found.append(f"{name} grew from {before.sizes[name]} to {now.sizes[name]}")
        return found + [f"{op} is rejected for {why}" for op, why in sorted(now.why - before.why)]

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`, in the format that `check --json` prints."""
        return {
            "feature_level": self.feature_level,
            "target": self.target,
            "nodes": self.nodes,
            "capable": self.capable,
            "taken": self.taken,
            "clusters": [c.to_json() for c in self.clusters],
            "rejections": [
                {"node": r.node, "op_type": r.op_type, "reason": str(r.reason), "detail": r.detail}
                | ({"source": r.source.to_json()} if r.source is not None else {})
                for r in self.rejections
            ],
            "notes": [
                {"node": n.node, "op_type": n.op_type, "detail": n.detail} for n in self.notes
            ],
            **({"model": {"sha256": self.digest}} if self.digest else {}),
        }


@frozen
class _Baseline:
    """What of a report in JSON form is compared with a later one.

    names  of all nodes
    left   number of nodes on the CPU
    why    operator type and reason of each rejection
    """

    digest: str
    names: Set[str]
    taken: int
    left: int
    sizes: Mapping[str, int]
    why: Set[tuple[str, str]]

    @staticmethod
    def of(report: Mapping[str, Any]) -> _Baseline:
        """Reads the report; raises what `regressions` catches for other data."""
        clusters, rejections = report["clusters"], report["rejections"]
        on_nnapi = [str(name) for c in clusters for name in c["nodes"]]
        border = sum(int(c["boundary_bytes"]) for c in clusters)
        return _Baseline(
            str(report.get("model", {}).get("sha256", "")),
            {*on_nnapi, *(str(r["node"]) for r in rejections)},
            len(on_nnapi),
            int(report["nodes"]) - len(on_nnapi),
            {"clusters": len(clusters), "border bytes": border},
            {(str(r["op_type"]), str(r["reason"])) for r in rejections},
        )


def combine(
    feature_level: int, target: str, graphs: Iterable[GraphReport], *, preview: bool = False
) -> Report:
    """Combines the reports of a model's graphs into one."""
    parts = list(graphs)
    return Report(
        feature_level,
        target,
        sum(g.nodes for g in parts),
        sum(g.capable for g in parts),
        tuple(c for g in parts for c in g.clusters),
        tuple(r for g in parts for r in g.rejections),
        tuple(n for g in parts for n in g.notes),
        sum(g.lower_bound for g in parts),
        tuple(parts),
        preview,
    )
