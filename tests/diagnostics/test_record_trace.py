"""A profile of one more session, with each NNAPI operation; tests/cli/test_run.py has the verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from tests.cli.command import DIGITS

OPERATIONS = ["CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED"]


def operations(path: Path) -> list[str]:
    """The NNAPI operations, without what is around them."""
    names = [e["name"] for e in json.loads(path.read_text()) if "device" in e.get("args", {})]
    return [name for name in names if not name.startswith("NNAPI ")]


def test_the_trace_is_all_that_it_writes(tmp_path: Path):
    trace = tmp_path / "trace.json"
    ep_nnapi.run(DIGITS, profile=trace)
    assert operations(trace) == OPERATIONS
    assert list(tmp_path.iterdir()) == [trace]


def test_the_session_has_the_options_of_the_run(tmp_path: Path):
    trace = tmp_path / "trace.json"
    ep_nnapi.run(DIGITS, profile=trace, exclude="Conv,Relu,MaxPool")
    assert operations(trace) == ["RESHAPE", "FULLY_CONNECTED"]


def test_a_file_that_is_there_is_replaced(tmp_path: Path):
    trace = tmp_path / "trace.json"
    trace.write_text("old")
    ep_nnapi.run(DIGITS, profile=str(trace))
    assert operations(trace) == OPERATIONS


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path):
    trace = tmp_path / "nowhere" / "trace.json"
    with pytest.raises(OptionError, match=f"{trace} cannot be written: No such file"):
        ep_nnapi.run(DIGITS, profile=trace)
