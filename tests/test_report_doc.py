"""docs/report.md: its commands print what is shown, its numbers are those of the code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.html_report.boxes import LIMIT
from ep_nnapi.preparation.job import Level
from tests.documents import commands

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "report.md"


@pytest.mark.parametrize(("command", "output"), commands(DOCUMENT))
def test_commands_print_what_is_shown(command: str, output: str, tmp_path: Path):
    (tmp_path / "models").symlink_to(ROOT / "models")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        check=True,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout == output
    named = [word for word in output.split() if (tmp_path / word.rstrip(":")).is_file()]
    assert named


def test_numbers_are_those_of_the_code():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"more than {LIMIT} nodes has parts" in text
    assert 8 + len(Level) == 13
    assert "takes thirteen checks" in text
