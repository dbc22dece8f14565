"""Data of the page, as JSON: the report of `check --json`, and what is needed to draw the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ep_nnapi.diagnostics.measured_times import MeasuredTimes
from ep_nnapi.errors import ADVICE, SourceLine
from ep_nnapi.html_report.boxes import CPU, Box, Drawing, drawing_of
from ep_nnapi.html_report.pictures import Variant, pictures_of
from ep_nnapi.report.report import Report


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the page shows.

    model                what the page is about: a file name
    listings             the NNAPI model of each cluster, as text
    times                measured times of clusters and nodes; empty if nothing was run
    feature_levels       reports at each feature level
    optimization_levels  reports at each of ONNX Runtime's optimization levels
    """

    model: str
    report: Report
    listings: tuple[str, ...] = ()
    times: MeasuredTimes = field(default_factory=MeasuredTimes)
    feature_levels: tuple[Variant, ...] = ()
    optimization_levels: tuple[Variant, ...] = ()

    @property
    def cluster_times(self) -> list[float | None]:
        """Measured microseconds of each cluster; None if it did not run."""
        return [self.times.clusters.get(c.nodes) for c in self.report.clusters]


def data_of(found: Findings) -> dict[str, object]:
    """The data of the page, for `json.dumps`."""
    drawing = drawing_of(found.report)
    return {
        "model": found.model,
        "report": found.report.to_json(),
        "nodes": _nodes(found, drawing),
        "boxes": [_box(b) for b in drawing.boxes],
        "clusters": _clusters(found),
        "pictures": {
            "feature": pictures_of(found.feature_levels),
            "optimization": pictures_of(found.optimization_levels),
        },
        "advice": {str(reason): advice for reason, advice in ADVICE.items()},
    }


def _nodes(found: Findings, drawing: Drawing) -> list[dict[str, object]]:
    rejection_of = {r.node: i for i, r in enumerate(found.report.rejections)}
    first_of = {nodes[0]: nodes for nodes in found.times.operations if nodes}
    return [
        {
            "name": node.name,
            "op": node.op_type,
            "cluster": cluster,
            "rejection": rejection_of.get(node.name, -1) if cluster == CPU else -1,
            "outputs": [
                f"{name}: {kind}" if kind else name
                for name, kind in zip(node.outputs, node.types, strict=True)
            ],
            "readers": list(readers),
            "us": [round(node.cpu_us, 3), round(node.nnapi_us, 3)],
            "measured": _measured(found.times, first_of, node.name, cluster),
            "source": "" if node.source is None else _source(node.source),
        }
        for node, cluster, readers in zip(
            drawing.nodes, drawing.clusters, drawing.readers, strict=True
        )
    ]


def _measured(
    times: MeasuredTimes, operations: Mapping[str, tuple[str, ...]], name: str, cluster: int
) -> dict[str, object] | None:
    """Returns the time of a node and the nodes that it is for; None if it is not known.

    operations  nodes of the NNAPI operations, by the first of them
    """
    nodes = (name,) if cluster == CPU else operations.get(name, ())
    us = times.cpu_nodes.get(name) if cluster == CPU else times.operations.get(nodes)
    return None if us is None else {"us": round(us, 3), "nodes": nodes}


def _source(source: SourceLine) -> str:
    return f"{source}: {source.code}" if source.code else str(source)


def _box(box: Box) -> dict[str, object]:
    return {
        "key": box.key,
        "kind": str(box.kind),
        "title": box.title,
        "cluster": box.cluster,
        "nodes": len(box.nodes),
        "rows": box.rows.rows,
        "edges": [(e.source, e.target, e.lanes) for e in box.rows.edges],
    }


def _clusters(found: Findings) -> list[dict[str, object]]:
    listings: Sequence[str] = found.listings or ("",) * len(found.report.clusters)
    return [
        {
            "operators": cluster.operators,
            "cpu_us": cluster.cpu_us,
            "nnapi_us": cluster.nnapi_us,
            "measured_us": measured,
            "listing": listing,
        }
        for cluster, listing, measured in zip(
            found.report.clusters, listings, found.cluster_times, strict=True
        )
    ]
