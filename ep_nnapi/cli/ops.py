"""The verb `ops`: the operators that can be taken."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, print_result, table

if TYPE_CHECKING:
    from ep_nnapi.operators import OperatorInfo

HELP = "the operators that can be taken"
add = arguments.add_json


def run(given: argparse.Namespace) -> int:
    """Prints one row for each operator."""
    from ep_nnapi.operators import ops

    known = ops()
    print_result(given.json, lambda: known, show, known)
    return DONE


def show(known: Sequence[OperatorInfo]) -> None:
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
