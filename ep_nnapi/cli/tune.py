"""The verb `tune`: measure ways to run a model, and write the best as settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_result, progress, table

if TYPE_CHECKING:
    from ep_nnapi.tuning.candidates import Measured
    from ep_nnapi.tuning.tune import Tuning

HELP = "measure levels, flags, devices and threads against the CPU; write the best as settings"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser)
    parser.takes("-o --output FILE", "settings file to write, as JSON", dest="out")
    arguments.add_inputs(parser)
    parser.takes(
        "--accuracy [NAME=]FILE ...",
        "inputs to judge the accuracy with; leaves the fewest nodes on the CPU so that the "
        "outputs stay within the tolerance",
    )
    arguments.add_tolerance(parser)
    parser.takes("--seconds", "of measurement in all (default 10)", type=float, default=10.0)
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Tunes, prints and writes the settings."""
    from ep_nnapi.tuning.tune import tune

    with progress("rounds") as advance:
        found = arguments.call(tune, given, progress=advance)
    print_result(given.json, found.to_json, show, found, given.out)
    return DONE


def show(found: Tuning, out: str | None) -> None:
    """Prints all candidates, the fastest first, and the recommended one with the reason."""
    if found.seed is not None:
        line(f"Random inputs of seed {found.seed}.")
    if len(found.sizes) > 1:
        named = {n: f"{list(found.sizes[0][n])} to {list(s)}" for n, s in found.sizes[-1].items()}
        sizes = ", ".join(f"{name} {text}" for name, text in named.items())
        line(f"Sizes vary over {len(found.sizes)} runs, {sizes}: --sizes names others, --fix one.")
    ordered = sorted(found.candidates, key=lambda m: m.seconds)
    table(
        ("candidate", "ms", "95 %", "processor ms", "runs", "taken", "clusters", "difference"),
        (_row(m) for m in ordered),
    )
    for each in ordered:
        if each.problem:
            line(f"{each.candidate.name}: {each.problem}")
    line()
    line(f"Best: {found.choice.best.candidate.name}.")
    line(found.choice.reason)
    if out is not None:
        line(f"settings: {out}")
    if found.not_stored:
        names = ", ".join(found.not_stored)
        line(f"Settings name no files: give {names} again beside them.")


def _row(found: Measured) -> tuple[str, ...]:
    timing, report, verdict = found.timing, found.report, found.verdict
    times = ("-", "-", "-", "-")
    if timing is not None:
        between = f"{timing.low * 1e3:.3g} to {timing.high * 1e3:.3g}"
        processor = f"{timing.cpu_seconds * 1e3:.3g}"
        times = (f"{timing.seconds * 1e3:.3g}", between, processor, str(timing.runs))
    taken = "-" if report is None else f"{report.taken} of {report.nodes}"
    clusters = "-" if report is None else str(len(report.clusters))
    difference = "-" if verdict is None else f"{verdict.worst:.2g}"
    return (found.candidate.name, *times, taken, clusters, difference)
