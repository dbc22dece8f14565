"""Python programs in processes of their own, for what signals, forks and exits do to a process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANG = 120
"""Seconds after which a program counts as hanging; it takes a few on an idle machine."""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program from the repository; raises TimeoutExpired when it hangs."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        cwd=ROOT,
    )
