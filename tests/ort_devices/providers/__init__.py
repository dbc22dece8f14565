"""An execution provider in C, built as somebody else's plugin library would be."""

import shutil
import subprocess
from pathlib import Path

import pytest

NAME = "SmallExecutionProvider"
NATIVE = Path(__file__).resolve().parents[3] / "native"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fPIC", "-shared")


def build_small_ep(folder: Path) -> Path:
    """Compiles the library; skips the test where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, out = Path(__file__).with_name("small_ep.c"), folder / "libsmall_ep.so"
    command = [compiler, *FLAGS, "-fvisibility=hidden", f"-I{NATIVE}", source, "-o", out]
    subprocess.run(command, check=True, timeout=60)
    return out
