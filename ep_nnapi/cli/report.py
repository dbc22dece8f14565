"""The verb `report`: write a page that shows the graph, every decision and all levels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ep_nnapi.cli import arguments
from ep_nnapi.cli.check import show_phones
from ep_nnapi.cli.terminal import DONE, line, print_json, progress, table
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.settings import read_json

HELP = "write a page that shows the graph, every decision and all levels"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser)
    parser.takes("-o --output FILE", "the HTML file to write", required=True)
    parser.takes("--no-levels", "do not compare feature and optimization levels")
    parser.takes(
        "--measure", "run the model with random inputs, for measured times of clusters and nodes"
    )
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Writes the page and prints a line about it, or its report as JSON; returns 0.

    With --receipt FILE also what that says: what ran where, what gave way before it, and why.
    """
    from ep_nnapi.html_report.write import write_findings

    receipt = None if given.receipt is None else _receipt(Path(given.receipt))
    given.receipt = None  # one that is read here, and written by other verbs
    with progress("levels") as advance:
        found = arguments.call(write_findings, given, advance=advance)
    if given.json:
        more = {"receipt": receipt, "phones": found.phones}
        about = {name: each for name, each in more.items() if each}
        print_json({"output": given.output, "report": found.report.to_json(), **about})
    else:
        line(f"{given.output}: {found.report.summary}")
        show_phones(found.phones)
        if receipt is not None:
            line()
            head = ("cluster", "runs on", "its runs", "of", "gave way before")
            table(head, _all_rows(receipt))
    return DONE


def _receipt(path: Path) -> dict[str, Any]:
    """Reads a receipt; raises OptionError if the file is none."""
    from ep_nnapi.provider.receipt import FORMAT

    wrong = "it is no receipt; a session with the option receipt writes one"
    found: Any = read_json(str(path), "receipt", "no such file", wrong)
    try:
        if found["format"] == FORMAT and _all_rows(found) is not None:
            return dict(found)
    except (AttributeError, KeyError, TypeError):
        pass
    raise OptionError(f"{path}: {wrong}")


def _all_rows(receipt: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [row for cluster in receipt["clusters"] for row in _rows(cluster)]


def _rows(cluster: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields a row of what computed a cluster, and one of each reason why something did not."""
    told = [f"{t['alternative']}: {t['reason']}" for t in cluster.get("tried", ())]
    told += [f"{cluster['device']}: {f['reason']}" for f in cluster["fallbacks"]]
    runs_on = str(cluster.get("alternative", cluster["device"]))
    numbers = str(cluster["device_runs"]), str(cluster["runs"])
    yield (str(cluster["name"]), runs_on, *numbers, told[0] if told else "")
    yield from (("", "", "", "", reason) for reason in told[1:])
