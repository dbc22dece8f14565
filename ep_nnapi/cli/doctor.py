"""The verb `doctor`: which operations a device computes, how fast, and if rightly."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_result, progress, table

if TYPE_CHECKING:
    from ep_nnapi.diagnostics.doctor import Examination, ExaminedOperation

HELP = "find the operations that a device computes wrongly, hangs or dies in"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    parser.takes("--runtime RUNTIME", "as the provider's option")
    parser.takes("--device NAME", "the device (default: the first that sessions use)")
    parser.takes(
        "--operation NAME ...",
        "examine this NNAPI operation only; may be repeated",
        dest="operations",
    )
    parser.takes("--timeout SECONDS", "a compilation or a run that takes longer hangs (default 10)")
    parser.takes(
        "-o --output FILE",
        "write a device profile with what is wrong, for --device-profile",
        dest="path",
    )
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Examines, and prints a row for each operation; exit code 1 if something is wrong."""
    from ep_nnapi.diagnostics.doctor import doctor

    with progress("operations examined") as advance:
        found = arguments.call(doctor, given, progress=advance)
    data = {"output": given.path} | found.to_json()
    print_result(given.json, lambda: data, show, given.path, found)
    return NEGATIVE if found.negative else DONE


def show(path: str | None, found: Examination) -> None:
    """Prints what was found."""
    from ep_nnapi.nnapi.profile.flaws import Defect

    table(
        ("operation", "samples", "right", "microseconds", "nnapi-reference", "worst"),
        (_row(operation, found.profile.device.name) for operation in found.operations),
    )
    line()
    device = found.profile.device
    wrong = {defect: found.names(defect) for defect in reversed(Defect)}
    right = len(found.operations) - sum(map(len, wrong.values()))
    line(
        f"{device.name}, feature level {device.feature_level}: {right} of {len(found.operations)} "
        "operations are right in all samples"
    )
    for defect, names in wrong.items():
        if names:
            line(f"{defect} ({len(names)}): {', '.join(names)}")
    for what, others in (("declined", found.declined), ("not tried", found.untried)):
        if others:
            line(f"{what} ({len(others)}): {', '.join(others)}")
    if path is not None:
        line(f"written: {path}")


def _row(operation: ExaminedOperation, device: str) -> tuple[str, ...]:
    times = ["-", "-"]
    if operation.seconds is not None:
        times = [f"{seconds * 1e6:.0f}" for seconds in operation.seconds]
    worst = operation.worst
    said = "" if worst is None else worst.sentence(device, operation.name)
    return operation.name, str(operation.trials), str(operation.right), *times, said
