"""Android's conformance cases, run from the outside as any client would; skipped without them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.host.kernels.table import KERNELS

RUNNER = Path(__file__).resolve().parents[3] / "shared" / "nnapi_conformance" / "run.py"
MODES = ("sync", "async", "burst", "fenced", "reusable", "memory", "cached")
MOST_OPERATIONS = "V1_1"
"""The folder of quick cases: 148 of them, of 35 operations."""
SECONDS = "120"
"""One case may take that long: the first also starts Python, on a machine that may be busy."""

pytestmark = pytest.mark.skipif(not RUNNER.is_file(), reason="no conformance cases beside the repo")


def failures(result: Path, *options: str) -> list[str]:
    """The cases that fail although every one of their operations has a kernel."""
    runner = [sys.executable, RUNNER, libneuralnetworks_path(), "--limit", SECONDS]
    command = [*runner, "--json", result, *options]
    subprocess.run(command, capture_output=True, timeout=900, check=False)
    implemented = {spec.name for spec, _ in KERNELS}
    rows = json.loads(result.read_text())
    assert rows
    return [
        f"{row['case']}: {row['why']}"
        for row in rows
        if row["why"] and implemented >= set(row["ops"])
    ]


@pytest.mark.parametrize("mode", ["sync", "fenced", "memory"])
def test_quick_cases(tmp_path: Path, mode: str) -> None:
    """`test_every_case` has them in all modes."""
    options = ("--mode", mode, "--version", MOST_OPERATIONS)
    assert failures(tmp_path / "rows.json", *options) == []


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_every_case(tmp_path: Path, mode: str) -> None:
    assert failures(tmp_path / "rows.json", "--mode", mode) == []


@pytest.mark.long
@pytest.mark.parametrize("option", ["--dynamic", "--signed", "--device=nnapi-reference"])
def test_every_case_with(tmp_path: Path, option: str) -> None:
    assert failures(tmp_path / "rows.json", option) == []
