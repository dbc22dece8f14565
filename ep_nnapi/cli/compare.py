"""The verb `compare`: compare with the CPU by output, cluster and node."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.check import require_both
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_result, progress, table
from ep_nnapi.options.table import parse
from ep_nnapi.report.report import operator_counts

if TYPE_CHECKING:
    from ep_nnapi.diagnostics.compare import ClusterErrors, Comparison, Culprit
    from ep_nnapi.diagnostics.verdict import ErrorMeasures

HELP = "compare with the CPU by output, cluster and node: where results part"
_VERDICTS = {
    "none": "within",
    "nnapi": "beyond",
    "unknown": "beyond",
    "alike": "as exact as the CPU",
    "cpu": "more exact than the CPU",
}
"""By the values of LessAccurate."""
"""Verdicts on a cluster: within or beyond the tolerance, else the more exact computation's."""
_MEASURES = ("max error", "mean error", "cosine", "SNR dB")


def add(parser: arguments.Parser) -> None:
    """Adds the arguments specific to `compare`."""
    arguments.add_model(parser)
    arguments.add_inputs(parser)
    arguments.add_tolerance(
        parser,
        f"; exit 1 beyond it{arguments.UNLESS_MORE_EXACT}",
        "an output of the model or of a cluster",
    )
    parser.takes(
        "--format",
        "write a graph for Google's Model Explorer, with the error of each node on NNAPI by "
        "itself and with measured times as node data",
        choices=("model-explorer",),
    )
    parser.takes("-o --output FILE", "the file that --format writes")
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Compares and prints; returns 1 if something is beyond the tolerance."""
    from ep_nnapi.diagnostics.compare import compare

    require_both(given)
    with progress("runs of clusters") as advance:
        by_node = given.format is not None
        found = arguments.call(compare, given, by_node=by_node, progress=advance)
        files = _written(given, found) if by_node else []
    print_result(given.json, found.to_json, show, found, files)
    return NEGATIVE if found.negative else DONE


def _written(given: argparse.Namespace, found: Comparison) -> Sequence[Path]:
    """Writes the files for the other tool; returns their paths."""
    from ep_nnapi.diagnostics.measured_times import measured_times
    from ep_nnapi.report.formats import ReportFormat, write_format

    options = parse(arguments.options_of(given))
    measured = measured_times(given.model, options, given.inputs).by_node
    values = {"error": found.node_errors, "measured": measured}
    output = Path(given.output)
    return write_format(ReportFormat(given.format), Path(given.model), found.report, output, values)


def show(found: Comparison, files: Sequence[Path] = ()) -> None:
    """Prints errors of outputs and clusters, the first operation beyond the tolerance, files."""
    from ep_nnapi.diagnostics.verdict import sentences  # imports numpy

    line(f"{found.report.summary}.")
    if found.seed is not None:
        line(f"Random inputs of seed {found.seed}.")
    line()
    table(
        ("output", "kind", *_MEASURES),
        ((d.output, d.kind, *_cells(found.measures[d.output])) for d in found.verdict.differences),
    )
    for sentence in sentences(found.verdict):
        line(sentence)
    for fallback in found.fallbacks:
        line(fallback.text)
    if found.clusters:
        line()
        line("Clusters, each fed with the CPU's values:")
        rows = (_row(number, cluster) for number, cluster in found.clusters.items())
        table(("cluster", "nodes", "device", *_MEASURES, "verdict", "from"), rows)
    idle = len(found.report.clusters) - len(found.clusters)
    if idle:
        line(f"{idle} more did not run with these inputs.")
    line()
    if found.culprit is not None:
        _culprit(found.culprit)
    elif found.verdict.negative and found.clusters:
        on_cpu = operator_counts(r.op_type for r in found.report.rejections)
        line(
            "No cluster by itself is beyond the tolerance: the outputs part because small errors "
            "add up over clusters"
            + (f", or are enlarged by the nodes on the CPU ({on_cpu})." if on_cpu else ".")
        )
    elif found.clusters:
        line("No cluster is beyond the tolerance.")
    else:
        line("No cluster ran, so there is nothing to compare.")
    for path in files:
        line(str(path))


def _row(number: int, cluster: ClusterErrors) -> tuple[str, ...]:
    report = cluster.report
    failed = cluster.failure is not None
    measures = ("-",) * len(_MEASURES) if failed else _cells(cluster.whole)
    said = "failed" if failed else _VERDICTS[cluster.verdict.less_accurate]
    return (str(number), str(len(report.nodes)), report.device, *measures, said, report.ends)


def _cells(measures: ErrorMeasures) -> tuple[str, ...]:
    return (
        f"{measures.maximum:.3g}",
        f"{measures.mean:.3g}",
        f"{measures.cosine:.6f}",
        f"{measures.decibels:.1f}",
    )


def _culprit(found: Culprit) -> None:
    """Prints the first operation beyond the tolerance, its errors and the cause."""
    from ep_nnapi.diagnostics.verdict import sentences  # imports numpy

    report, failure = found.errors.report, found.errors.failure
    names = ", ".join(report.nodes)
    if len(report.nodes) == 1:
        first = f"{names} ({report.op_types[0]}) in cluster {found.cluster}"
        line(f"The first operation beyond the tolerance is {first}.")
    else:
        line(
            f"In cluster {found.cluster} no node by itself is beyond the tolerance; the smallest "
            f"part that is has {len(report.nodes)} nodes ({report.operators}): {names}."
        )
    if failure is not None:
        line(f"{report.device} fails: {failure}")
    else:
        for sentence in sentences(found.errors.verdict):
            line(sentence)
    line(_cause(found))


def _cause(found: Culprit) -> str:
    """Returns a sentence that tells a device's defect from one of the lowering."""
    device, other = found.errors.report.device, found.elsewhere
    if other is None:
        return f"No other device of the host takes it: {device} or the lowering is the cause."
    name = other.report.device
    if name == device:  # of the host, beside a library's or a phone's
        name, device = f"the host's {name}", f"the session's {device}"
    if other.negative and len(found.errors.report.nodes) > 1:
        return (
            f"{name} is beyond it too: rounding errors of these nodes add up, or their lowering is "
            "wrong together."
        )
    if other.negative:
        return f"{name} is beyond it too: the lowering is the cause, not {device}."
    return f"{name} is within it: the arithmetic of {device} is the cause, not the lowering."
