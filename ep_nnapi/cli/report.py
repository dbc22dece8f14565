"""The verb `report`: write a page that shows the graph, every decision and all levels."""

from __future__ import annotations

import argparse

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_json, progress

HELP = "write a page that shows the graph, every decision and all levels"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the HTML file to write"
    )
    parser.add_argument(
        "--no-levels",
        dest="levels",
        action="store_false",
        help="do not compare feature and optimization levels",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the model with random inputs, for measured times of clusters and nodes",
    )
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Writes the page and prints a line about it, or its report as JSON; returns 0."""
    from ep_nnapi.html_report.write import write_report

    with progress("levels") as advance:
        report = arguments.call(write_report, given, advance=advance)
    if given.json:
        print_json({"output": given.output, "report": report.to_json()})
    else:
        line(f"{given.output}: {report.summary}")
    return DONE
