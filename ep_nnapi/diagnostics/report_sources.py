"""Source lines in reports: where in a PyTorch program each node comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ep_nnapi.errors import Rejection
from ep_nnapi.graph.source_lines import SourceLines, source_lines
from ep_nnapi.report.report import GraphReport, Report


def with_sources(report: Report, model: str | bytes) -> Report:
    """Returns the report on `model` with the source lines that the model's metadata has."""
    return with_lines(report, source_lines(model))


def with_lines(report: Report, lines: SourceLines) -> Report:
    """Returns the report with these source lines of its nodes."""
    if not lines.by_output:
        return report
    graphs = tuple(_graph(graph, lines) for graph in report.graphs)
    rejections = tuple(r for graph in graphs for r in graph.rejections)
    return replace(report, graphs=graphs, rejections=rejections)


def _graph(graph: GraphReport, lines: SourceLines) -> GraphReport:
    outline = tuple(replace(n, source=lines.of(n.name, n.outputs)) for n in graph.outline)
    outputs = {n.name: n.outputs for n in graph.outline}
    return replace(
        graph, outline=outline, rejections=tuple(_rejections(graph.rejections, outputs, lines))
    )


def _rejections(
    found: Iterable[Rejection], outputs: dict[str, tuple[str, ...]], lines: SourceLines
) -> Iterable[Rejection]:
    for rejection in found:
        yield replace(rejection, source=lines.of(rejection.node, outputs.get(rejection.node, ())))
