"""One wheel for every CPython: built once, installed, used from Python and C on each one here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi.header import write_header
from tests.programs import ran

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "ep_nnapi",
    "native",
    "partitioner",
    "release",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "LICENSE",
    "README.md",
)
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PROGRAM = """
import ctypes, threading, sys
nn = ctypes.CDLL(sys.argv[1])
codes, start = [], threading.Barrier(8)
def work():
    start.wait()
    for _ in range(200):
        handle = ctypes.c_void_p()
        codes.append(nn.ANeuralNetworksModel_create(ctypes.byref(handle)))
        nn.ANeuralNetworksModel_finish(handle)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(codes), set(codes))
"""

pytestmark = pytest.mark.long


def run(*command: object, **options: object) -> str:
    done = ran(*command, timeout=600, **options)
    return done.stdout


def interpreter(version: str) -> str | None:
    """A Python of that version which runs: on the path, or among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *root.glob(f"{version}.*/bin/python")]
    for found in filter(None, candidates):
        if subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            return str(found)
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy, so that the checkout keeps its own build."""
    copy = tmp_path_factory.mktemp("source")
    unwanted = shutil.ignore_patterns("*.so", "__pycache__")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=unwanted)
        elif source.exists():
            shutil.copy(source, copy)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", copy, copy)
    (built,) = copy.glob("*.whl")
    return built


def test_its_name_says_every_cpython(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel(wheel: Path, tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no python{version} here")
    run(python, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "numpy", "cffi", "threadpoolctl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    path = "from ep_nnapi.nnapi.capi import *; print(libneuralnetworks_path())"
    library = Path(run(python, "-c", path, cwd=tmp_path).strip())
    assert library.is_relative_to(tmp_path)
    assert run(python, "-c", PROGRAM, library, cwd=tmp_path) == "1600 {0}\n"
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    write_header(tmp_path)
    program = tmp_path / "exclusive_or"
    run("cc", ROOT / "examples" / "exclusive_or.c", f"-I{tmp_path}", library, "-o", program)
    said = run(program, env={"LD_LIBRARY_PATH": str(library.parent)})
    assert said.endswith("1 xor 0 = 1\n1 xor 1 = 0\n")
