"""The page as one HTML file that loads nothing: tables for every reader, data and a drawing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files

from ep_nnapi.diagnostics.inspect_context import Phone, table_of
from ep_nnapi.diagnostics.measured_times import MeasuredTimes
from ep_nnapi.errors import ADVICE, SourceLine
from ep_nnapi.html_report.boxes import CPU, Box, Drawing, Variant, drawing_of, pictures_of
from ep_nnapi.report import html as report_html
from ep_nnapi.report.report import Report


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the page shows.

    model                what the page is about: a file name
    listings             the NNAPI model of each cluster, as text
    times                measured times of clusters and nodes; empty if nothing was run
    feature_levels       reports at each feature level
    optimization_levels  reports at each of ONNX Runtime's optimization levels
    phones               what phones take of what is compiled ahead of time
    """

    model: str
    report: Report
    listings: tuple[str, ...] = ()
    times: MeasuredTimes = field(default_factory=MeasuredTimes)
    feature_levels: tuple[Variant, ...] = ()
    optimization_levels: tuple[Variant, ...] = ()
    phones: tuple[Phone, ...] = ()

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
        "clusters": _cluster_data(found),
        "pictures": {
            "feature": pictures_of(found.feature_levels),
            "optimization": pictures_of(found.optimization_levels),
        },
        "advice": {str(reason): advice for reason, advice in ADVICE.items()},
        "phones": [asdict(phone) for phone in found.phones],
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


def _cluster_data(found: Findings) -> list[dict[str, object]]:
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


_SLOWEST = 20
"""Number of the slowest parts of a run that are listed singly."""
_TIME_COLUMNS = ("part", "operators", "device", "measured", "share of the run")


def page(found: Findings) -> str:
    """The page about a model, complete with styles and scripts."""
    title = f"{found.model}: NNAPI report"
    styles = f"\n{_asset('page.css')}"
    scripts = [f"\n{text}" for text in map(_asset, ("layout.js", "zoom.js", "page.js"))]
    policy = f"default-src 'none'; style-src {_digests([styles])}; script-src {_digests(scripts)}"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{report_html.text(title)}</title>",
            f"<style>{styles}</style>",
            "</head>",
            "<body>",
            _header(found),
            _asset("graph.html"),
            "<main>",
            *_sections(found),
            "</main>",
            _footer(),
            f'<script type="application/json" id="data">{_embedded(data_of(found))}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        )
    )


def _digests(contents: Sequence[str]) -> str:
    """Hash sources of a Content Security Policy (Level 3): what may be in a page, and nothing else.

    The JSON needs none, because no browser executes it.
    """
    digests = (b64encode(sha256(content.encode()).digest()) for content in contents)
    return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)


def _embedded(data: dict[str, object]) -> str:
    """JSON that cannot end the script element that it is in."""
    plain = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _header(found: Findings) -> str:
    report = found.report
    facts = (
        ("", f"{report.taken} of {report.nodes}", "nodes on NNAPI"),
        ("", str(len(report.clusters)), "cluster" if len(report.clusters) == 1 else "clusters"),
        ("", _bytes(report.boundary_bytes), "over their borders"),
        ("feature level", str(report.feature_level), ""),
        ("target", report.target, ""),
    )
    items = "".join(
        f"<li>{before} <b>{report_html.text(value)}</b> {after}</li>"
        for before, value, after in facts
    )
    return f"<header><h1>{report_html.text(found.model)}</h1><ul>{items}</ul></header>"


def _sections(found: Findings) -> list[str]:
    report = found.report
    sections = [_section("clusters", "Clusters", _clusters(found))] if report.clusters else []
    times = _times(found)
    if times:
        sections.append(_section("times", "Measured times", times))
    if report.rejections:
        tables = report_html.rejection_tables(report.rejections)
        sections.append(_section("rejections", "Left to the CPU", tables))
    if report.notes:
        rows = [(n.op_type, n.node, n.detail) for n in report.notes]
        notes = report_html.table(("operator", "node", "note"), rows)
        sections.append(_section("notes", "Taken with a note", notes))
    if found.phones:
        table = report_html.table(*table_of(found.phones))
        sections.append(_section("phones", "Phones and alternatives", table))
    comparisons = (
        _comparison("feature", found.feature_levels),
        _comparison("optimization", found.optimization_levels),
    )
    if any(comparisons):
        sections.append(_section("levels", "Side by side", "".join(comparisons)))
    return sections


def _section(key: str, title: str, content: str) -> str:
    return f'<section id="{key}"><h2>{title}</h2><div class="wide">{content}</div></section>'


def _clusters(found: Findings) -> str:
    """A table with the same columns as the terminal's, inputs, outputs and times."""
    times = ("estimated on NNAPI", "estimated on the CPU", "measured")
    columns = (*report_html.CLUSTER_COLUMNS, "inputs", "outputs", *times)
    rows = []
    for i, (c, measured) in enumerate(zip(found.report.clusters, found.cluster_times, strict=True)):
        rows.append(
            (
                *(i, len(c.nodes), c.device, _bytes(c.boundary_bytes), c.operators),
                *(c.ends, ", ".join(c.inputs), ", ".join(c.outputs)),
                *(_microseconds(c.nnapi_us), _microseconds(c.cpu_us), _microseconds(measured)),
            )
        )
    note = (
        "Estimated times of a run are by the default cost model of a phone unless a calibration is "
        "given; measured is that of a run on this machine (report --measure)."
    )
    below = report_html.paragraphs([*found.report.substitutes, note])
    return report_html.table(columns, rows) + below


def _times(found: Findings) -> str:
    """A table of what takes longest in a run: clusters, and nodes on the CPU provider."""
    types = {n.name: n.op_type for g in found.report.graphs for n in g.outline}
    parts = [
        (f"cluster {i}", c.operators, c.device, us)
        for i, (c, us) in enumerate(zip(found.report.clusters, found.cluster_times, strict=True))
        if us is not None
    ]
    with_subgraphs = {g.key.rpartition(".")[0] for g in found.report.graphs}
    parts += [
        (name, types.get(name, ""), "CPU provider", us)
        for name, us in found.times.cpu_nodes.items()
        if name not in with_subgraphs  # their times are those of the nodes inside
    ]
    total = sum(us for *_, us in parts)
    if not total:
        return ""
    parts.sort(key=lambda part: -part[-1])
    rows = [(*names, _microseconds(us), f"{us / total:.1%}") for *names, us in parts[:_SLOWEST]]
    rest = sum(us for *_, us in parts[_SLOWEST:])
    left = len(parts) - _SLOWEST
    if left > 0:
        rows.append((f"{left} more", "", "", _microseconds(rest), f"{rest / total:.1%}"))
    devices = "".join(
        f"<li>cluster {t.cluster} on {report_html.text(t.device)}: {time:.3g} ms</li>"
        for t in found.times.devices
        if (time := t.in_driver or t.on_hardware) is not None
    )
    note = (
        f"Median of {found.times.runs} runs with random inputs after a warm-up, at optimization "
        "level basic, so that the nodes are those of the drawing."
    )
    own = f"<p>As the devices measured themselves:</p><ul>{devices}</ul>" if devices else ""
    return f"{report_html.table(_TIME_COLUMNS, rows)}<p>{note}</p>{own}"


def _comparison(what: str, variants: Sequence[Variant]) -> str:
    """A table of levels, and a place for their pictures, which the page draws."""
    if not variants:
        return ""
    columns = (f"{what} level", "nodes", "on NNAPI", "clusters", "border bytes")
    rows = map(_variant, variants)
    caption = f"{what.capitalize()} levels"
    table = report_html.table((*columns, "reasons of the others"), rows, caption)
    return f'{table}<div class="pictures" data-kind="{what}"></div>'


def _variant(variant: Variant) -> tuple[object, ...]:
    report = variant.report
    if report is None:
        return (variant.name, "-", "-", "-", "-", variant.error)
    reasons = report_html.folded(report.rejections).items()
    return (
        *(variant.name, report.nodes, report.taken, len(report.clusters)),
        _bytes(report.boundary_bytes),
        ", ".join(f"{sum(map(len, kinds))} {reason}" for reason, kinds in reasons),
    )


def _footer() -> str:
    return f"<footer><p>Made by ep-nnapi {report_html.text(version('ep-nnapi'))}.</p></footer>"


def _bytes(count: int) -> str:
    """A number of bytes for people: `1.5 MB` of 1,500,000 bytes."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _microseconds(time: float | None) -> str:
    if time is None:
        return "-"
    return f"{time / 1e3:.3g} ms" if time >= 1e3 else f"{time:.3g} µs"


@cache
def _asset(name: str) -> str:
    return files("ep_nnapi.html_report").joinpath("assets", name).read_text(encoding="utf-8")
