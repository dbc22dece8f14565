"""Programs of C and C++ that use the library, made and run."""

import subprocess
from pathlib import Path

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from tests.programs import Done, ran

LIBRARY = Path(libneuralnetworks_path())
SOURCES = Path(__file__).parent


def compiled(directory: Path, source: Path, *command: str) -> Path:
    """The program made of a source, linked with the library; `directory` has the header."""
    program = directory / source.stem
    command = (*command, "-Wall", "-Wextra", "-Werror")
    files = [source, f"-I{directory}", LIBRARY, "-lpthread", "-ldl", "-o", program]
    subprocess.run([*command, *files], check=True, timeout=60)
    return program


def run(program: Path, *arguments: str | Path, **environment: str) -> Done:
    """The program in an environment that says nothing about Python."""
    env = {"LD_LIBRARY_PATH": str(LIBRARY.parent), **environment}
    return ran(program, *arguments, status=None, timeout=120, env=env)
