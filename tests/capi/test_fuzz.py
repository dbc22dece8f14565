"""Random calls, in a process of their own: no crash, no unknown code, no wrong number."""

import sys
from pathlib import Path

import pytest

from tests.programs import ran

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.long)])
def test_random_calls(seconds: int) -> None:
    """The seed is new each time; the program prints it."""
    done = ran(sys.executable, "-m", "tests.capi.fuzz", "--seconds", seconds, timeout=seconds + 60)
    assert "valid" in done.stdout
