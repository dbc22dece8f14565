"""Completion: what a shell is told for a command line that is not finished."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT


def completed(line: str, folder: Path) -> set[str]:
    """The completions of the last word, as argcomplete's shell functions ask for them."""
    answer = folder / "answer"
    answer.touch()
    environment = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ep_nnapi"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stdout) == (0, "")
    return {word.strip() for word in answer.read_text(encoding="utf-8").split("\n")}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ep-nnapi rep", {"report"}),
        ("ep-nnapi bundle --abi arm", {"arm64-v8a", "armeabi-v7a"}),
        ("ep-nnapi check --lev", {"--levels"}),
        ("ep-nnapi check --optimization-level n", {"nnapi-aware"}),
        ("ep-nnapi check --format ", {"model-explorer", "netron"}),
        ("ep-nnapi run --feature-l", {"--feature-level"}),  # an option of the provider
        ("ep-nnapi check models/dig", {"models/digits/", "models/digits.onnx"}),
    ],
)
def test_words(line: str, found: set[str], tmp_path: Path):
    assert completed(line, tmp_path) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells(shell: str):
    """The command of the README prints a script for each."""
    script = Path(sys.executable).with_name("register-python-argcomplete")
    done = subprocess.run(
        [script, "--shell", shell, "ep-nnapi"], check=True, capture_output=True, text=True
    )
    assert "ep-nnapi" in done.stdout


def test_a_command_that_is_run_imports_no_argcomplete():
    code = (
        "import sys; from ep_nnapi.cli.main import main; main(['ops']); "
        "sys.exit('argcomplete' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "_ARGCOMPLETE"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0
