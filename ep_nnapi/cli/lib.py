"""The verb `lib`: where libneuralnetworks.so is, and how to build C programs with it."""

from __future__ import annotations

import argparse

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, print_json
from ep_nnapi.nnapi.errors import OptionError

HELP = "path of libneuralnetworks.so, and flags to build C programs with it"


def add(parser: arguments.Parser) -> None:
    """Adds the arguments, each of which replaces the default output (the path)."""
    parser.takes("--cflags", "print compiler flags")
    parser.takes("--libs", "print linker flags")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--pkgconfigdir", action="store_true", help="print the PKG_CONFIG_PATH")
    others.add_argument("--cmakedir", action="store_true", help="print the NeuralNetworks_DIR")
    others.add_argument("--header", metavar="DIR", help="write the headers to DIR/android")
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the library's path, or the flags or directories asked for; writes headers."""
    from ep_nnapi.nnapi.capi import header, libneuralnetworks_path

    flags = [header.compiler_flags()] * given.cflags + [header.linker_flags()] * given.libs
    if flags and (given.header or given.pkgconfigdir or given.cmakedir):
        raise OptionError("--cflags and --libs go with each other only")
    if given.json and (flags or given.header or given.pkgconfigdir or given.cmakedir):
        raise OptionError("--json has the path, the flags and the directories; give it alone")
    if given.json:
        print_json({"path": libneuralnetworks_path()} | header.data())
    elif given.header:
        print(header.write_header(given.header))
    elif given.pkgconfigdir or given.cmakedir:
        print(header.PKG_CONFIG if given.pkgconfigdir else header.CMAKE)
    else:
        print(" ".join(flags) or libneuralnetworks_path())
    return DONE
