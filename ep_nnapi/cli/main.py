"""Entry point of the command line: parse arguments, call one library function, print its result.

A verb is a module of its name, with HELP, `add`, which adds its arguments, and `run`, which returns
the exit code. It imports what it calls when it is called: of `prepare`, only workers import ONNX
Runtime.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ep_nnapi.cli import arguments, terminal
from ep_nnapi.cli.arguments import Parser, dashed
from ep_nnapi.cli.terminal import FAILED, UNUSABLE, line
from ep_nnapi.installed import explained
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError

VERBS = (
    "check",
    "run",
    "compare",
    "tune",
    "fix",
    "prepare",
    "bundle",
    "report",
    "listing",
    "ops",
    "devices",
    "profile",
    "doctor",
    "lib",
)
"""In the order of --help."""
_COMPLETING = "_ARGCOMPLETE"  # set by the shell when it asks for completions


def main(given: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 done, 1 negative result, 2 unusable input, or 3 NNAPI failed."""
    with terminal.until_closed():
        return _exit_code(given)


def _exit_code(given: Sequence[str] | None) -> int:
    try:
        parser = _parser()
        if _COMPLETING in os.environ:  # answers the shell and exits
            import argcomplete

            # with the options of the provider, though --help leaves them to --help-options
            argcomplete.autocomplete(parser, print_suppressed=True)
        parsed = parser.parse_args(dashed(sys.argv[1:] if given is None else given))
        with explained():
            code: int = parsed.verb(parsed)
        sys.stdout.flush()  # what cannot be written is an error here
        return code
    except (ModelError, OptionError) as error:
        line(f"ep-nnapi: {error}", error=True)
        return UNUSABLE
    except NnapiError as error:
        line(f"ep-nnapi: {error}", error=True)
        return FAILED
    except OSError as error:  # a full disk, or one that cannot be read
        return terminal.unusable(error)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ep-nnapi", description="ONNX models on Android's NNAPI")
    arguments.add_version(parser)
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    for name in VERBS:
        verb = import_module(f"ep_nnapi.cli.{name}")
        added = verbs.add_parser(name, help=verb.HELP)
        verb.add(added)
        added.set_defaults(verb=verb.run)
    return parser
