"""The verb `prepare`: optimize and save models, for use offline."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, NEGATIVE, line, number, print_result, progress, table
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OptionKeywords, PrepareKeywords
from ep_nnapi.preparation.job import TIMEOUT, Format, Level, Platform, Style, level_with_nnapi

if TYPE_CHECKING:
    from ep_nnapi.preparation.batch import Preparation
    from ep_nnapi.preparation.manifest import Prepared

HELP = "optimize and save, for use offline"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments."""
    arguments.add_model(parser, "an .onnx or .ort file, or a directory of .onnx files")
    parser.takes(
        "-o --output OUT", "output directory, or file for one model", dest="out", required=True
    )
    _add_those_of_the_format(parser)
    _add_those_of_contexts(parser)
    _add_those_of_the_work(parser)
    parser.takes("--no-verify", "do not compare with the original")
    arguments.add_input(parser, "input of the comparison")
    arguments.add_tolerance(parser, f"; a model beyond it fails{arguments.UNLESS_MORE_EXACT}")
    arguments.add_json(parser)


def _add_those_of_the_format(parser: arguments.Parser) -> None:
    parser.takes(
        "--optimization-level",
        "ONNX Runtime's level, or nnapi-aware (default): extended, NNAPI's nodes unfused",
        choices=Level,
    )
    parser.takes("--use-nnapi", "make level extended nnapi-aware")
    parser.takes(
        "--format",
        "output format (default: by the suffix of OUT, else ort)",
        choices=Format,
    )
    parser.takes(
        "--target-platform",
        "processor that the nodes on the CPU are optimized for: arm (default) or amd64",
        choices=Platform,
    )
    parser.takes(
        "--optimization-style",
        "apply optimizations (fixed, default), or record them for the load (runtime)",
        type=str.lower,
        choices=Style,
    )
    parser.takes(
        "--enable-type-reduction", "also list element types: required_operators_and_types.config"
    )


def _add_those_of_contexts(parser: arguments.Parser) -> None:
    parser.takes("--embed", "format context: weights in the model file")
    parser.takes(
        "--partial",
        "format context: leave nodes whose sizes depend on symbolic ones to the session",
    )
    parser.takes(
        "--alternatives NAMES",
        "format context: comma-separated programs of each cluster, of which the phone takes "
        "one: nnapi:1 to nnapi:8, litert, cpu; auto has all that differ (default: one program)",
    )


def _add_those_of_the_work(parser: arguments.Parser) -> None:
    parser.takes("--jobs N", "models in parallel (default: one per CPU)")
    parser.takes(
        "--timeout SECONDS",
        f"time limit for one model, all steps together (default {TIMEOUT:g})",
        default=TIMEOUT,
    )
    parser.takes(
        "--memory GB", "memory limit of each worker process (default: half of the machine's memory)"
    )


def run(given: argparse.Namespace) -> int:
    """Prepares and prints; returns 1 if a model fails."""
    from ep_nnapi.preparation.batch import prepare

    if not given.verify and (given.inputs or given.tolerance is not None):
        raise OptionError("--no-verify compares nothing; drop --input and --tolerance")
    if given.use_nnapi:
        given.optimization_level = level_with_nnapi(given.optimization_level)
    names = PrepareKeywords.__annotations__.keys() - OptionKeywords.__annotations__.keys()
    own = {name: getattr(given, name) for name in sorted(names)}
    stated = {name: value for name, value in own.items() if value is not None}
    with progress("models") as advance:
        done = arguments.call(prepare, given, progress=advance, **stated)
    print_result(given.json, lambda: [m.to_json() for m in done.models], show, done)
    for model in done.failed:
        line(f"ep-nnapi: {model.model}: {model.error}", error=True)
    return NEGATIVE if done.failed else DONE


def show(done: Preparation) -> None:
    """Prints one row for each model, and the path of the manifest."""
    table(
        ("model", "status", "clusters", "taken", "difference", "output"),
        (_row(m) for m in done.models),
    )
    line()
    for model in done.models:
        if model.compiled is not None and model.report is not None:
            part = model.compiled
            line(
                f"{model.output}: compiled {part['nodes']} of {model.report['nodes']} nodes, with "
                f"{part['weight_bytes']:,} bytes of weights (the model has "
                f"{part['model_weight_bytes']:,})"
            )
        if model.level and model.level != (asked := model.recipe.job["optimization_level"]):
            line(
                f"{model.output}: optimized at level {model.level} in place of {asked}, as ONNX "
                "Runtime's own format lacks a type of its tensors"
            )
        if model.random:
            names = ", ".join(model.random)
            line(f"{model.output}: {names} cannot be compared, being made of random numbers")
    line(f"manifest: {done.manifest}")


def _row(model: Prepared) -> tuple[str, ...]:
    found = model.report
    clusters = "-" if found is None else str(len(found["clusters"]))
    taken = "-"
    if found is not None:
        taken = f"{sum(len(c['nodes']) for c in found['clusters'])} of {found['nodes']}"
    apart = number(model.worst)
    written = ", ".join(model.outputs) or "-"
    return (model.model, str(model.status), clusters, taken, apart, written)
