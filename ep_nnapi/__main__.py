"""`python -m ep_nnapi VERB ...` is `ep-nnapi VERB ...`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130  # what shells give a program that Ctrl-C ended
_IMPORTING = (
    "importlib._bootstrap",
    "_frozen_importlib",
)  # one module, before and after its import


def start() -> int:
    """Runs the command line; Ctrl-C ends it in one sentence at any time, imports included."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        from ep_nnapi.cli.main import main

        return main()
    except KeyboardInterrupt:
        _say()
        return _INTERRUPTED


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; within an import it ends the process instead.

    Extension modules print a traceback of what is raised while they are imported, and go on.
    """
    at = frame
    while at is not None:
        if at.f_globals.get("__name__") in _IMPORTING:
            _say()
            os._exit(_INTERRUPTED)
        at = at.f_back
    signal.default_int_handler(number, frame)


def _say() -> None:
    os.write(2, b"ep-nnapi: interrupted\n")  # the stream may be held by what was interrupted


if __name__ == "__main__":
    sys.exit(start())
