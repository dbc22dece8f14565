"""Data of the page, as JSON: the report of `check --json`, and what is needed to draw the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ep_nnapi.errors import ADVICE, SourceLine
from ep_nnapi.html_report.boxes import CPU, Box, Drawing, drawing_of
from ep_nnapi.report import Report


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of a comparison: a level, and the report at it, or the error in its place."""

    name: str
    report: Report | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the page shows.

    model                what the page is about: a file name
    listings             the NNAPI model of each cluster, as text
    measured             milliseconds of a run of clusters, by number; empty if nothing was run
    feature_levels       reports at each feature level
    optimization_levels  reports at each of ONNX Runtime's optimization levels
    """

    model: str
    report: Report
    listings: tuple[str, ...] = ()
    measured: Mapping[int, float] = field(default_factory=dict)
    feature_levels: tuple[Variant, ...] = ()
    optimization_levels: tuple[Variant, ...] = ()


def data_of(found: Findings) -> dict[str, object]:
    """The data of the page, for `json.dumps`."""
    drawing = drawing_of(found.report)
    return {
        "model": found.model,
        "report": found.report.to_json(),
        "nodes": _nodes(found, drawing),
        "boxes": [_box(b) for b in drawing.boxes],
        "clusters": _clusters(found),
        "advice": {str(reason): advice for reason, advice in ADVICE.items()},
    }


def _nodes(found: Findings, drawing: Drawing) -> list[dict[str, object]]:
    rejection_of = {r.node: i for i, r in enumerate(found.report.rejections)}
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
            "source": "" if node.source is None else _source(node.source),
        }
        for node, cluster, readers in zip(
            drawing.nodes, drawing.clusters, drawing.readers, strict=True
        )
    ]


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
            "measured_ms": found.measured.get(i),
            "listing": listing,
        }
        for i, (cluster, listing) in enumerate(zip(found.report.clusters, listings, strict=True))
    ]
