"""docs/compare_and_tune.md: its Python and its commands print what the document says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.options.settings import LEVELS, read_settings
from tests.documents import blocks, commands
from tests.programs import ran

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "compare_and_tune.md"


def without_numbers(text: str) -> str:
    """Errors depend on the order of sums in the processor's BLAS, and so do widths of columns."""
    text = re.sub(r"\b\d+(\.\d+)?(e[+-]\d+)?\b", "N", text)
    return re.sub(r" +", " ", text)


def test_python_prints_what_the_document_says(tmp_path: Path) -> None:
    for program, output in zip(blocks(DOCUMENT, "python"), blocks(DOCUMENT, "output"), strict=True):
        command = [sys.executable, "-c", program.replace("build/", f"{tmp_path}/")]
        done = ran(*command)
        assert done.stdout == output


def test_the_settings_file_is_one(tmp_path: Path) -> None:
    (text,) = blocks(DOCUMENT, "json")
    (tmp_path / "settings.json").write_text(text)
    assert read_settings(tmp_path / "settings.json").options["exclude"] == "Conv_1"


def test_tune_writes_settings(tmp_path: Path) -> None:
    (block,) = blocks(DOCUMENT, "sh")
    verb, *arguments = shlex.split(block.replace("build/", f"{tmp_path}/"))
    assert verb == "ep-nnapi"
    subprocess.run([sys.executable, "-m", "ep_nnapi", *arguments], cwd=ROOT, check=True)
    assert read_settings(tmp_path / "settings.json").level in LEVELS


@pytest.mark.parametrize(("command", "output"), commands(DOCUMENT))
def test_commands_print_what_the_document_says(command: str, output: str) -> None:
    verb, *arguments = shlex.split(command)
    assert verb == "ep-nnapi"
    run = [sys.executable, "-m", "ep_nnapi", *arguments]
    done = ran(*run, status=None)
    shown = done.stdout + done.stderr + (f"[exit {done.returncode}]\n" if done.returncode else "")
    assert without_numbers(shown) == without_numbers(output)
