"""Small pictures of the graph at each level, for the side-by-side comparison of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ep_nnapi.html_report.boxes import Box, Drawing, Kind, drawing_of
from ep_nnapi.report.report import Report, operator_counts

SMALL = 60
"""Largest number of nodes that a picture shows singly; in larger ones clusters stay closed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of a comparison: a level, and the report at it, or the error in its place."""

    name: str
    report: Report | None
    error: str = ""


def pictures_of(variants: Iterable[Variant]) -> list[dict[str, object]]:
    """Returns the data of one picture for each level, for `json.dumps`.

    Neighbouring levels with the same picture share it: `names` are theirs.
    """
    found: list[dict[str, object]] = []
    names: list[list[str]] = []
    for variant in variants:
        if variant.report is None or not variant.report.nodes:
            continue
        picture = _picture(variant.report)
        if found and found[-1] == picture:
            names[-1].append(variant.name)
        else:
            found.append(picture)
            names.append([variant.name])
    return [{"names": n, **picture} for n, picture in zip(names, found, strict=True)]


def _picture(report: Report) -> dict[str, object]:
    drawing = drawing_of(report)
    root = drawing.boxes[-1]
    opened = report.nodes <= SMALL
    inner = {b.key: b for b in drawing.boxes[:-1]}
    shown = list(inner) if opened else [k for row in root.rows.rows for k in row if k in inner]
    keys = {k for b in (drawing.boxes if opened else [root]) for row in b.rows.rows for k in row}
    count = len(report.clusters)
    clusters = "1 cluster" if count == 1 else f"{count} clusters"
    return {
        "summary": f"{report.taken} of {report.nodes} nodes on NNAPI, {clusters}",
        "opened": opened,
        "boxes": [_box(b, drawing) for b in (*(inner[k] for k in shown), root)],
        "nodes": {
            f"n{i}": {"cluster": cluster, "labels": [node.op_type, node.name]}
            for i, (node, cluster) in enumerate(zip(drawing.nodes, drawing.clusters, strict=True))
            if f"n{i}" in keys
        },
    }


def _box(box: Box, drawing: Drawing) -> dict[str, object]:
    names: Mapping[Kind, str] = {Kind.CLUSTER: f"Cluster {box.cluster}", Kind.CPU: "CPU"}
    operators = operator_counts(drawing.nodes[i].op_type for i in box.nodes)
    return {
        "key": box.key,
        "cluster": box.cluster,
        "cpu": box.kind is Kind.CPU,
        "labels": [names.get(box.kind, box.title), operators],
        "rows": box.rows.rows,
        "edges": [(e.source, e.target, e.lanes) for e in box.rows.edges],
    }
