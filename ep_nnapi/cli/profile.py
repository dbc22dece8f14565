"""The verb `profile`: record a device's answers, for --device-profile on another machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_result, progress

if TYPE_CHECKING:
    from ep_nnapi.nnapi.profile.device import Profile

HELP = "record a device's answers, for --device-profile on another machine"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="record the very operations of this model too"
    )
    parser.takes("--runtime RUNTIME", "as the provider's option")
    parser.takes("--device NAME", "the device (default: the first, CPUs last)")
    parser.takes("-o --output FILE", "the profile to write, as JSON", required=True)
    parser.takes(
        "--times",
        "measure the device and the CPU beside it too (some seconds more), for "
        "--partitioning worth_it",
    )
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Records, and prints a summary."""
    from ep_nnapi.diagnostics.calibrate import record_profile

    with progress("recording") as advance:
        found = arguments.call(record_profile, given, path=given.output, progress=advance)
    print_result(given.json, partial(data, given.output, found), show, given.output, found)
    return DONE


def data(output: str, found: Profile) -> dict[str, object]:
    """Returns the summary of a device profile as plain data for JSON."""
    counts = [{"of": what, "supported": n, "asked": asked} for what, n, asked in _counts(found)]
    level = {"device": found.device.name, "feature_level": found.device.feature_level}
    return {"output": output} | level | {"counts": counts, "calibration": found.calibration}


def show(output: str, found: Profile) -> None:
    """Prints the summary of a device profile that was written to `output`."""
    line(f"{output}: {found.device.name}, feature level {found.device.feature_level}")
    for what, supported, asked in _counts(found):
        line(f"supports {supported} of {asked} {what}")
    if found.calibration is not None:
        line("has measured times, by which --partitioning worth_it estimates")


def _counts(found: Profile) -> Iterator[tuple[str, int, int]]:
    """What a device was asked for, the number that it supports and the number asked."""
    supported = {name for (name, *_), answers in found.groups.items() if answers is not None}
    asked = {name for name, *_ in found.groups}
    yield "operations in at least one form", len(supported), len(asked)
    if found.exact:
        yield "operations of the given models", sum(found.exact.values()), len(found.exact)
