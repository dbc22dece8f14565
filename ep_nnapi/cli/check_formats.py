"""The arguments --format and --output of `check`, and what is printed about the files."""

from __future__ import annotations

import argparse
from pathlib import Path

from ep_nnapi.cli.terminal import line
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.report.report import Report

_FORMATS = ("model-explorer", "netron")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the two arguments."""
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="write the report for another tool: a graph and node data of Google's Model Explorer, "
        "or an .onnx file for Netron with the decision in each node's metadata",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the file that --format writes")


def require_both(given: argparse.Namespace) -> None:
    """Raises OptionError for one of the two arguments without the other."""
    if (given.format is None) != (given.output is None):
        raise OptionError("--format and --output go together: give both or neither")


def validate(given: argparse.Namespace) -> None:
    """Raises OptionError as `require_both`, and for what contradicts the arguments."""
    require_both(given)
    if given.format and (given.levels or given.json or given.optimization_level):
        raise OptionError(
            "--format writes one report of the model as it is; drop --levels, --optimization-level "
            "and --json"
        )


def write(given: argparse.Namespace, report: Report) -> None:
    """Writes the files and prints a line about each."""
    from ep_nnapi.report.formats import Format, write_format

    files = write_format(Format(given.format), Path(given.model), report, Path(given.output))
    line(f"{report.summary}.")
    for path in files:
        line(str(path))
