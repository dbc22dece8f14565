"""docs/runtimes.md: its Python block and its command print what the document says."""

import shlex
import sys
from pathlib import Path

from ep_nnapi.nnapi.library.binding import NEEDED
from tests.documents import blocks, commands
from tests.programs import ran

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "runtimes.md"


def printed(*arguments: str) -> str:
    """Output of Python, without the spaces that end a row of a table."""
    command = [sys.executable, *arguments]
    done = ran(*command, timeout=300)
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_the_example_prints_what_the_document_says() -> None:
    (program,), (output,) = (blocks(DOCUMENT, kind) for kind in ("python", "output"))
    assert printed("-c", program) == output


def test_the_command_prints_what_the_document_says() -> None:
    for command, output in commands(DOCUMENT):
        verb, *arguments = shlex.split(command)
        assert verb == "ep-nnapi"
        assert printed("-m", "ep_nnapi", *arguments) == output


def test_the_document_counts_the_functions_of_level_1() -> None:
    assert f"| 1 | 8.1 | {len(NEEDED[1])} functions: " in DOCUMENT.read_text()
