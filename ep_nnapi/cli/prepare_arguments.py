"""Arguments of the command `prepare`, and the call to the library function."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ep_nnapi.cli import arguments
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OptionKeywords, PrepareKeywords
from ep_nnapi.preparation.job import TIMEOUT, Format, Level, Platform, Style, level_with_nnapi

if TYPE_CHECKING:
    from ep_nnapi.preparation.batch import Preparation, Progress


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments specific to `prepare`; the shared options are already there."""
    _of_the_result(parser.add_argument)
    _of_the_format(parser.add_argument)
    _of_the_work(parser.add_argument)
    _of_the_comparison(parser.add_argument)


def _of_the_result(argument: Callable[..., argparse.Action]) -> None:
    argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="output directory, or file for one model",
    )
    argument(
        "--optimization-level",
        choices=[str(x) for x in Level],
        help="ONNX Runtime's level, or nnapi-aware (default): extended, NNAPI's nodes unfused",
    )
    argument(
        "--use-nnapi",
        action="store_true",
        help="make level extended nnapi-aware",
    )


def _of_the_format(argument: Callable[..., argparse.Action]) -> None:
    argument(
        "--format",
        choices=[str(x) for x in Format],
        help="output format (default: by the suffix of OUT, else ort)",
    )
    argument(
        "--target-platform",
        choices=[str(x) for x in Platform],
        help="processor that the nodes on the CPU are optimized for: arm (default) or amd64",
    )
    argument(
        "--optimization-style",
        type=str.lower,
        choices=[str(x) for x in Style],
        help="apply optimizations (fixed, default), or record them for the load (runtime)",
    )
    argument(
        "--enable-type-reduction",
        action="store_true",
        help="also list element types: required_operators_and_types.config",
    )
    argument("--embed", action="store_true", help="format context: weights in the model file")
    argument(
        "--partial",
        action="store_true",
        help="format context: leave nodes whose sizes depend on symbolic ones to the session",
    )


def _of_the_work(argument: Callable[..., argparse.Action]) -> None:
    argument("--jobs", type=int, metavar="N", help="models in parallel (default: one per CPU)")
    argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        default=TIMEOUT,
        help=f"time limit for one model, all steps together (default {TIMEOUT:g})",
    )
    argument(
        "--memory",
        type=float,
        metavar="GB",
        help="memory limit of each worker process (default: half of the machine's memory)",
    )


def _of_the_comparison(argument: Callable[..., argparse.Action]) -> None:
    argument("--no-verify", action="store_true", help="do not compare with the original")
    arguments.add_input(argument, "input of the comparison")
    argument(
        "--tolerance",
        type=float,
        help="largest difference of an output, relative to its spread (default: by its kind, 1e-4 "
        "for float32); a model beyond it fails, unless a more exact computation shows that NNAPI "
        "is no less accurate than the CPU",
    )


def call(
    given: argparse.Namespace, options: OptionKeywords, progress: Progress | None
) -> Preparation:
    """Calls `prepare` with the parsed arguments and the provider's options."""
    from ep_nnapi.preparation.batch import prepare

    if given.no_verify and (given.input or given.tolerance is not None):
        raise OptionError("--no-verify compares nothing; drop --input and --tolerance")
    level = given.optimization_level
    chosen = {
        "optimization_level": level_with_nnapi(level) if given.use_nnapi else level,
        "format": given.format,
        "target_platform": given.target_platform,
        "optimization_style": given.optimization_style,
        "enable_type_reduction": given.enable_type_reduction,
        "embed": given.embed,
        "partial": given.partial,
    }
    stated = {name: v for name, v in chosen.items() if v is not None} | options
    return prepare(
        given.model,
        given.out,
        verify=not given.no_verify,
        inputs=given.input,
        tolerance=given.tolerance,
        jobs=given.jobs,
        timeout=given.timeout,
        memory=given.memory,
        progress=progress,
        **cast(PrepareKeywords, stated),
    )
