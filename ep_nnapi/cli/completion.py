"""Completion of the command line in shells, by argcomplete."""

from __future__ import annotations

import argparse
import os

_ASKED = "_ARGCOMPLETE"  # set by the shell when it asks for completions


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell and exits, if this process was started to complete a command line.

    Options of the provider are completed too, though --help leaves them to --help-options.
    """
    if _ASKED in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, print_suppressed=True)
