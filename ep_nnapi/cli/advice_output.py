"""The argument --advise of `check`, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.cli.terminal import DONE, line, print_json, table
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OptionKeywords

if TYPE_CHECKING:
    from ep_nnapi.diagnostics.advice import Road


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the argument."""
    parser.add_argument(
        "--advise",
        action="store_true",
        help="what CPU, XNNPACK, WebGPU, QNN and LiteRT take of the model, and the commands",
    )


def run(given: argparse.Namespace, options: OptionKeywords) -> int:
    """Prints the ways off NNAPI and returns the exit code.

    Raises OptionError with arguments of other reports.
    """
    from ep_nnapi.diagnostics.advice import advise

    others = ("levels", "baseline", "optimization_level", "format", "strict")
    named = [f"--{name.replace('_', '-')}" for name in others if getattr(given, name)]
    if named:
        raise OptionError(f"--advise is about the model as it is; drop {', '.join(named)}")
    roads = advise(given.model, **options)
    if given.json:
        print_json([road.to_json() for road in roads])
    else:
        _print(roads)
    return DONE


def _print(roads: Sequence[Road]) -> None:
    table(("road", "nodes it takes", "not taken"), (_row(road) for road in roads))
    for road in roads:
        line()
        line(f"{road.name}: {'; '.join(road.notes)}")
        line(f"  {road.command}")
        line(f"  {road.source}")


def _row(road: Road) -> tuple[str, ...]:
    taken = "not listed" if road.taken is None else f"{road.taken} of {road.nodes}"
    left = ", ".join(f"{n} {op}" for op, n in road.left.items()) or "-"
    return road.name, taken, left
