"""Entry point of `python -m ep_nnapi VERB ...`, the same as `ep-nnapi VERB ...`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TextIO

_INTERRUPTED = 130  # the exit status of a program ended by SIGINT: 128 + 2
_IMPORTING = (
    "importlib._bootstrap",
    "_frozen_importlib",
)  # names of the same module, before and after importlib is imported


def start() -> int:
    """Runs the command line; Ctrl-C prints one line and exits, even during imports."""
    signal.signal(signal.SIGINT, _interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the program
            setattr(sys, name, _nowhere())
    try:
        from ep_nnapi.cli.main import main

        code = main()
        _drop_unwritten()
        return code
    except KeyboardInterrupt:
        _say()
        return _INTERRUPTED


def _nowhere() -> TextIO:
    return open(os.devnull, "w")


def _drop_unwritten() -> None:
    """Forgets output that cannot be written, which the interpreter would complain of at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = _nowhere()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; during an import, exits the process instead.

    An extension module prints a traceback of an exception raised during its import and continues.
    """
    at = frame
    while at is not None:
        if at.f_globals.get("__name__") in _IMPORTING:
            _say()
            os._exit(_INTERRUPTED)
        at = at.f_back
    signal.default_int_handler(number, frame)


def _say() -> None:
    os.write(2, b"ep-nnapi: interrupted\n")  # sys.stderr may be locked by the interrupted code


if __name__ == "__main__":
    sys.exit(start())
