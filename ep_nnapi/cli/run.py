"""The verb `run`: run on NNAPI and compare with the CPU."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.check import show_report
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, number, print_result, progress, table
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.report.report import Phase

if TYPE_CHECKING:
    from ep_nnapi.diagnostics.measured_times import DeviceTime, Latency
    from ep_nnapi.diagnostics.run_and_compare import RunResult

HELP = "run on NNAPI and compare with the CPU"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser)
    arguments.add_inputs(parser)
    parser.takes("--random", "random inputs (the default)")
    parser.takes("--no-latency", "do not measure latency")
    parser.takes(
        "--profile FILE",
        "write ONNX Runtime's profile of one more session, with each NNAPI operation, as JSON "
        "for Perfetto",
    )
    arguments.add_tolerance(parser, f"; exit 1 beyond it{arguments.UNLESS_MORE_EXACT}")
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Runs, compares and prints; returns 1 if NNAPI is less accurate."""
    from ep_nnapi.diagnostics.run_and_compare import run as run_and_compare

    if given.random and given.inputs:
        raise OptionError("--random and --input exclude each other; give one of them")
    with progress("runs on both providers"):
        result = arguments.call(run_and_compare, given)
    print_result(given.json, partial(data, result), show, result)
    return NEGATIVE if result.verdict.negative else DONE


def show(result: RunResult) -> None:
    """Prints the report, predicted classes if there are labels, differences and latency."""
    show_report(result.report)
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
    for sizes, latency in result.latencies.items():
        _latency(latency, f" at {sizes}")
    if result.latency is not None and not result.latencies:
        _latency(result.latency)


def _device_time(time: DeviceTime) -> str:
    """Returns the durations that the device knows."""
    found = {"on hardware": time.on_hardware, "in the driver": time.in_driver}
    return ", ".join(f"{ms:.3g} ms {where}" for where, ms in found.items() if ms is not None)


def _differences(result: RunResult) -> None:
    """Prints the difference of each output and the verdict."""
    from ep_nnapi.diagnostics.verdict import sentences  # imports numpy

    table(
        ("output", "kind", f"largest difference from {result.against}", "spread"),
        ((d.output, d.kind, number(d.absolute), number(d.spread)) for d in result.differences),
    )
    for sentence in sentences(result.verdict):
        line(sentence)


def _latency(found: Latency, at: str = "") -> None:
    sides = {"NNAPI": found.nnapi, "the CPU": found.cpu}
    times = {side: timed for side, timed in sides.items() if timed is not None}
    text = ", ".join(f"{side} {timed.milliseconds:.3g} ms" for side, timed in times.items())
    runs = " and ".join(str(timed.runs) for timed in times.values())
    line(f"Latency{at}: {text} (median of {runs} runs after a warm-up)")


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


def data(result: RunResult) -> dict[str, object]:
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
    if result.latencies:
        data["latencies"] = {sizes: asdict(found) for sizes, found in result.latencies.items()}
    if result.recognised is not None and result.labels is not None:
        data["recognised"] = result.recognised.tolist()
        data["labels"] = result.labels.tolist()
    return data
