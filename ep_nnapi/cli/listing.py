"""The verb `listing`: the NNAPI models that a model is lowered to."""

from __future__ import annotations

import argparse

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, print_json
from ep_nnapi.options.table import parse

HELP = "the NNAPI models that a model is lowered to"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser)
    parser.takes("--weights", "print constants in full (default: sizes and digests of large ones)")
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the NNAPI models; returns 1 if NNAPI takes no node."""
    from ep_nnapi.diagnostics.check import partitioned
    from ep_nnapi.nnapi.listing import listing
    from ep_nnapi.provider.dynamic_cluster import DynamicCluster

    provider = partitioned(given.model, parse(arguments.options_of(given)), fast=False)
    found = [(c.report, listing(c.models[0], data=given.weights)) for c in provider.clusters]
    if given.json:
        print_json([report.to_json() | {"model": text} for report, text in found])
    else:
        for _, text in found:
            print(text)
    tried = (c for c in provider.clusters if isinstance(c, DynamicCluster))
    for value in {v.name: v for c in tried for v in c.open_inputs}.values():
        line(
            f"ep-nnapi: {value.name} is {[d or '?' for d in value.dims or ()]}: sizes that come of "
            "it are only tried here, and compiled as they come; --fix gives others",
            error=True,
        )
    if not provider.clusters:
        line("ep-nnapi: NNAPI takes no node of this model", error=True)
        return NEGATIVE
    return DONE
