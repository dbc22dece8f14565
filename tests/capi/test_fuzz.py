"""Random calls, in a process of their own: no crash, no unknown code, no wrong number."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seconds", [5, pytest.param(120, marks=pytest.mark.long)])
def test_random_calls(seconds: int) -> None:
    """The seed is new each time; the program prints it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.capi.fuzz", "--seconds", str(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valid" in done.stdout
