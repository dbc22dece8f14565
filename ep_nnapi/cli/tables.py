"""Tables of results: levels, runs, prepared models, operators and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ep_nnapi.cli import report_tables as report_printing
from ep_nnapi.cli.terminal import line, table
from ep_nnapi.report.report import Phase

if TYPE_CHECKING:
    from ep_nnapi.costs.calibration import Calibration
    from ep_nnapi.diagnostics.device_times import DeviceTime
    from ep_nnapi.diagnostics.inspect_context import Content
    from ep_nnapi.diagnostics.latency import Latency
    from ep_nnapi.diagnostics.run_and_compare import RunResult
    from ep_nnapi.operators import OperatorInfo
    from ep_nnapi.preparation.batch import Preparation
    from ep_nnapi.preparation.manifest import Prepared
    from ep_nnapi.report.report import Report


def compiled(found: Sequence[Content]) -> None:
    """Prints one row for each cluster compiled ahead of time."""
    line()
    line("Compiled ahead of time:")
    head = ("node", "level", "operations", "inputs", "outputs", "weights", "from")
    table(head, (c.row for c in found))


def levels(reports: Sequence[Report]) -> None:
    """Prints one row for each feature level."""
    table(
        ("level", "nodes", "taken", "clusters", "border bytes"),
        (
            (
                str(r.feature_level),
                str(r.nodes),
                str(r.taken),
                str(len(r.clusters)),
                str(r.boundary_bytes),
            )
            for r in reports
        ),
    )


def run_result(result: RunResult) -> None:
    """Prints the report, predicted classes if there are labels, differences and latency."""
    report_printing.report(result.report)
    line()
    if result.recognised is not None and result.labels is not None:
        right = int((result.recognised == result.labels).sum())
        line("recognised  " + " ".join(str(n) for n in result.recognised))
        line("labels      " + " ".join(str(n) for n in result.labels))
        line(f"{right} of {len(result.labels)} right")
        line()
    if result.against is None:
        line(
            "Not compared: the CPU provider cannot run clusters compiled ahead of time; "
            "`prepare` compares them with the original."
        )
    else:
        _differences(result)
    for fallback in result.fallbacks:
        line(fallback.text)
    for time in result.device_times:
        line(f"Cluster {time.cluster}, as {time.device} measured it: {_device_time(time)}")
    if result.on_reference:
        line(_cause(result))
    if result.latency is not None:
        _latency(result.latency)


def _device_time(time: DeviceTime) -> str:
    """Returns the durations that the device knows."""
    found = {"on hardware": time.on_hardware, "in the driver": time.in_driver}
    return ", ".join(f"{ms:.3g} ms {where}" for where, ms in found.items() if ms is not None)


def _differences(result: RunResult) -> None:
    """Prints the difference of each output and the verdict."""
    from ep_nnapi.diagnostics.verdict_text import sentences  # imports numpy

    table(
        ("output", "kind", f"largest difference from {result.against}", "spread"),
        ((d.output, d.kind, _number(d.absolute), _number(d.spread)) for d in result.differences),
    )
    for sentence in sentences(result.verdict):
        line(sentence)


def _latency(found: Latency) -> None:
    sides = {"NNAPI": found.nnapi, "the CPU": found.cpu}
    times = {side: timed for side, timed in sides.items() if timed is not None}
    text = ", ".join(f"{side} {timed.milliseconds:.3g} ms" for side, timed in times.items())
    runs = " and ".join(str(timed.runs) for timed in times.values())
    line(f"Latency: {text} (median of {runs} runs after a warm-up)")


def _number(found: float | None) -> str:
    return "-" if found is None else f"{found:.3g}"


def _cause(result: RunResult) -> str:
    """Returns a sentence on whether a device's own arithmetic causes the difference."""
    from ep_nnapi.diagnostics.verdict import LessAccurate

    devices = ", ".join(sorted({c.device for c in result.report.clusters}))
    on_reference = max(d.relative for d in result.on_reference)
    reference = "On the host's nnapi-reference it is"
    if any(d.exceeds for d in result.on_reference):
        return f"{reference} {on_reference:.3g} too: not the arithmetic of {devices}."
    if result.verdict.less_accurate is LessAccurate.NNAPI:
        return f"{reference} {on_reference:.3g}: device {devices} computes wrongly."
    return f"{reference} {on_reference:.3g}: the arithmetic of {devices} makes the difference."


def run_data(result: RunResult) -> dict[str, object]:
    """Returns the result of a run as plain data for JSON."""
    data: dict[str, object] = {
        "report": result.report.to_json(),
        "verdict": result.verdict.to_json(),
        "against": result.against,
        "differences": [d.to_json() for d in result.differences],
        "on_reference": [d.to_json() for d in result.on_reference],
        "failures": [
            *map(str, result.failures),
            *(f.by.reason for f in result.fallbacks if f.by.phase is Phase.COMPILE),
        ],
        "fallback_runs": result.fallback_runs,
        "fallbacks": [fallback.to_json() for fallback in result.fallbacks],
        "device_times": [asdict(time) for time in result.device_times],
    }
    if result.latency is not None:
        data["latency"] = asdict(result.latency)
    if result.recognised is not None and result.labels is not None:
        data["recognised"] = result.recognised.tolist()
        data["labels"] = result.labels.tolist()
    return data


def preparation(done: Preparation) -> None:
    """Prints one row for each model, and the path of the manifest."""
    table(
        ("model", "status", "clusters", "taken", "difference", "output"),
        (_prepared_row(m) for m in done.models),
    )
    line()
    for model in done.models:
        if model.compiled is not None and model.report is not None:
            part = model.compiled
            line(
                f"{model.output}: compiled {part['nodes']} of {model.report['nodes']} nodes, with "
                f"{part['weight_bytes']:,} bytes of weights (the model has "
                f"{part['model_weight_bytes']:,})"
            )
        if model.random:
            names = ", ".join(model.random)
            line(f"{model.output}: {names} cannot be compared, being made of random numbers")
    line(f"manifest: {done.manifest}")


def _prepared_row(model: Prepared) -> tuple[str, ...]:
    found = model.report
    clusters = "-" if found is None else str(len(found["clusters"]))
    taken = "-"
    if found is not None:
        taken = f"{sum(len(c['nodes']) for c in found['clusters'])} of {found['nodes']}"
    apart = _number(model.worst)
    written = ", ".join(model.outputs) or "-"
    return (model.model, str(model.status), clusters, taken, apart, written)


def ops(known: Sequence[OperatorInfo]) -> None:
    """Prints one row for each operator."""
    rows = (
        (
            f"{o.domain}:{o.op_type}" if o.domain else o.op_type,
            f"{o.since}+",
            ", ".join(o.operations),
            str(o.level),
            " ".join(o.types),
            o.summary,
        )
        for o in known
    )
    table(("operator", "opset", "NNAPI operations", "lowest level", "types", "what it does"), rows)


def calibration(found: Calibration) -> None:
    """Prints one row for each kind of cost, with the CPU provider's and the device's."""
    cpu, nnapi = found.model.cpu, found.model.nnapi
    rows: list[tuple[str, float | None, float]] = [
        ("cluster", None, found.model.per_cluster),
        ("byte over its border", None, found.model.per_byte),
        ("node", cpu.per_node, nnapi.per_node),
        ("byte of a node", cpu.per_byte, nnapi.per_byte),
        *((f"{f} MAC", cpu.per_mac[f], nnapi.per_mac[f]) for f in cpu.per_mac),
    ]
    table(
        ("microseconds", "CPU provider", found.device),
        ((name, "-" if a is None else f"{a:.3g}", f"{b:.3g}") for name, a, b in rows),
    )
