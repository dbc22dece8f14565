"""docs/sequences.md: its programs print what it says, and run as fast as it promises."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.documents import blocks, commands, without_noise
from tests.programs import ran
from tests.runtimes import host_only

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "sequences.md"
MOST = 1.5
"""Largest ratio of torch.compile's time to eager PyTorch's."""


def printed(command: str) -> str:
    """What a command of the document prints on stdout."""
    arguments = command.split()
    settings = dict(a.split("=") for a in arguments if "=" in a)
    program = [sys.executable, "-W", "ignore", *arguments[len(settings) + 1 :]]
    return ran(*program, cwd=ROOT, timeout=500, env={**os.environ, **settings}).stdout


@host_only
def test_the_networks_of_changing_sizes_agree() -> None:
    command, shown = commands(DOCUMENT)[0]
    assert without_noise(printed(command)) == without_noise(shown)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_compiled_decoder_generates_eager_pytorchs_tokens_as_fast() -> None:
    command, shown = commands(DOCUMENT)[1]
    found = printed(command)
    assert without_noise(found) == without_noise(shown)
    times = re.findall(r"([\d.e+]+) ms each, eager ([\d.e+]+) ms", found)
    assert len(times) == 2
    assert all(float(ours) <= MOST * float(eager) for ours, eager in times), found


def test_the_step_that_is_shown_stands_in_the_example() -> None:
    (shown,) = blocks(DOCUMENT, "python")
    assert shown in (ROOT / "examples" / "sequences.py").read_text()
