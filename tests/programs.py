"""Programs in processes of their own, and forked ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
Done = subprocess.CompletedProcess[str]


def ran(
    *command: object,
    status: int | None = 0,
    timeout: float = 600,
    cwd: str | Path = ROOT,
    **options: object,
) -> Done:
    """The command, which ends with that status (None: any), with what it printed as text.

    It starts in the repository; TimeoutExpired is raised when it hangs.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=timeout, cwd=cwd, **options
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done


def python(program: str, *words: object, **options: object) -> Done:
    return ran(sys.executable, "-c", program, *words, **options)


FAILED = 70
"""Exit code of a child that raises an exception."""


def in_child(check: Callable[[], int], seconds: int = 60) -> int:
    """The exit code of a forked process that exits with `check()`; a signal ends one that hangs."""
    child = os.fork()
    if not child:
        signal.alarm(seconds)
        try:
            os._exit(check())
        finally:  # an exception
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
