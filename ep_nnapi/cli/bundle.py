"""The verb `bundle`: a prepared model with what runs it on a phone, in one folder."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_result
from ep_nnapi.remote.binaries import ABIS

if TYPE_CHECKING:
    from ep_nnapi.bundling.bundle import Bundle

HELP = "put a prepared model, its C programs and scripts for adb into one folder"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments; there are no options of the provider."""
    parser.add_argument("model", help="an .onnx file of prepare --format context")
    parser.takes("-o --output OUT", "folder to make, or .zip file", dest="out", required=True)
    parser.takes(
        "--abi",
        "processor of the phone (default: arm64-v8a)",
        choices=ABIS,
        default="arm64-v8a",
    )
    parser.takes(
        "--native DIR",
        "folder of nnapi_run and the plugin, built with the NDK (default: build/android/ABI, "
        "else that of the package ep-nnapi-android)",
    )
    arguments.add_inputs(parser)
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Writes the bundle and prints what to do with it."""
    from ep_nnapi.bundling.bundle import bundle

    made = arguments.call(bundle, given)
    print_result(given.json, made.to_json, show, made)
    for note in made.notes:
        line(f"ep-nnapi: {note}", error=True)
    return DONE


def show(made: Bundle) -> None:
    """Prints where the bundle is and the commands that use it."""
    size = sum(file.bytes for file in made.files)
    line(
        f"{made.out}: {len(made.files)} files, {size} bytes, for {made.abi} and NNAPI feature "
        f"level {made.feature_level} or higher"
    )
    if made.remote is None:
        return
    where = f"in {made.out}, unpacked: " if made.out.lower().endswith(".zip") else f"{made.out}/"
    line(f"{where}push.sh copies it to {made.remote} on the phone by adb")
    line(f"{where}run.sh runs it there and brings the outputs")
