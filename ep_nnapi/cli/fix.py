"""The verb `fix`: rewrite to an equal model of which NNAPI takes more."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_result, progress, table
from ep_nnapi.nnapi.errors import OptionError

if TYPE_CHECKING:
    from ep_nnapi.report.report import Report
    from ep_nnapi.rewriting.fix import Fixed

HELP = "rewrite to an equal model of which NNAPI takes more; verified before it is written"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser, "an .onnx file")
    parser.takes("-o --output OUT", ".onnx file to write", dest="out", required=True)
    arguments.add_input(parser, "input of the comparison")
    parser.takes(
        "--range NAME=LOW:HIGH ...",
        "least and greatest element that an INT64 input may have, as attention_mask=0:1, so "
        "that INT64 may become INT32; may be repeated",
    )
    arguments.add_tolerance(parser, "; a model beyond it is not written")
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Rewrites, verifies and prints; returns 1 if nothing is written."""
    from ep_nnapi.rewriting.fix import fix

    with progress("rewrites") as advance:
        ranges = dict(map(_range, given.range))
        found = arguments.call(fix, given, ranges=ranges, progress=advance)
    print_result(given.json, found.to_json, show, found, given.out)
    return DONE if found.written else NEGATIVE


def _range(given: str) -> tuple[str, tuple[int, int]]:
    name, _, limits = given.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return name, (int(low), int(high))
    except ValueError:
        raise OptionError(
            f"range is {given!r}; it must be NAME=LOW:HIGH, as attention_mask=0:1"
        ) from None


def show(found: Fixed, out: str) -> None:
    """Prints the rewrites with what each gains, the verification, and the path."""
    line(f"{found.before.summary}.")
    if found.steps:
        head = ("rewrite", "left to the CPU before", "after", "clusters before", "after")
        rows = ((s.name, *_pair(s.before, s.after)) for s in found.steps)
        table(head, rows)
    for name in found.useless:
        line(f"Possible, but nothing is gained: {name}.")
    for name, observed in found.unknown_ranges.items():
        seen = "" if observed is None else f" (of the given inputs: {observed[0]}:{observed[1]})"
        line(
            f"{name} is INT64 of unknown range, and NNAPI has no INT64. If you know the least and "
            f"greatest element{seen}, --range {name}=LOW:HIGH makes NNAPI take more."
        )
    if found.verdict is not None:
        from ep_nnapi.diagnostics.verdict import sentences  # imports numpy

        for sentence in sentences(found.verdict):
            line(sentence)
    if not found.before.rejections:
        line("NNAPI takes every node already: nothing is written.")
    elif not found.steps:
        line("No rewrite that is known to be equal makes NNAPI take more: nothing is written.")
    elif found.written:
        line(f"{found.after.summary}.")
        line(f"fixed: {out}")
    else:
        line("The rewritten model differs from the original: nothing is written.")


def _pair(before: Report, after: Report) -> tuple[str, ...]:
    left = [str(r.nodes - r.taken) for r in (before, after)]
    return (*left, *(str(len(r.clusters)) for r in (before, after)))
