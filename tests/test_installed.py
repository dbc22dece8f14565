"""Beside any distribution that provides the module onnxruntime; what is missing gets a sentence."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi import installed
from ep_nnapi.nnapi.errors import NnapiError

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIGITS = str(ROOT / "models" / "digits.onnx")
NO_ONNXRUNTIME = (
    "ONNX Runtime is not installed: pip install onnxruntime (or onnxruntime-gpu, or another build "
    "that provides the module onnxruntime)"
)
# A library, as an ONNX Runtime of API 24 loads it: GetApi refuses what is newer, and CreateStatus,
# the first function of every table, says what it is given.
OLD_ONNXRUNTIME = """
import ctypes, sys, ep_nnapi
create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
    lambda code, message: print(message.decode()) or 1)
table = (ctypes.c_void_p * 1)(ctypes.cast(create, ctypes.c_void_p))
get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(
    lambda version: ctypes.addressof(table) if version <= 24 else None)
version = ctypes.CFUNCTYPE(ctypes.c_char_p)(lambda: b"1.24.4")
base = (ctypes.c_void_p * 2)(*(ctypes.cast(f, ctypes.c_void_p) for f in (get, version)))
library = ctypes.CDLL(getattr(ep_nnapi, sys.argv[1])())
library.CreateEpFactories.restype = ctypes.c_void_p
count = ctypes.c_size_t(7)
factories = (ctypes.c_void_p * 4)()
room = ctypes.c_size_t(4)
failed = library.CreateEpFactories(b"x", base, None, factories, room, ctypes.byref(count))
print(failed, count.value)
"""
# Modules are found, distributions are not: what another distribution's environment looks like.
OTHER_DISTRIBUTION = """
import importlib.metadata, sys
real = importlib.metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name == "onnxruntime": raise importlib.metadata.PackageNotFoundError(name)
    return real(cls, name)
importlib.metadata.Distribution.from_name = classmethod(from_name)
"""
WITHOUT = "import sys; sys.modules['onnxruntime'] = None"


def python(code: str, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT / "docs",  # where there is no package
        env=os.environ | ({"PYTHONPATH": str(path)} if path else {}),
    )


COMMAND = "\nfrom ep_nnapi.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_installing_it_brings_no_onnxruntime_in_place_of_another_build():
    assert not [d for d in PROJECT["dependencies"] if d.startswith("onnxruntime")]


def test_the_oldest_onnxruntime_stands_alike_everywhere():
    (extra,) = PROJECT["optional-dependencies"]["onnxruntime"]
    major, minor = installed.OLDEST_ONNXRUNTIME
    assert extra.startswith(f"onnxruntime>={major}.{minor},")
    for source in ("ep_nnapi/ort/native.c", "native/plugin.h"):
        assert re.search(rf"REQUIRED_API = {minor}\b", (ROOT / source).read_text())


def test_the_version_is_that_of_the_module():
    assert installed.onnxruntime_version() == onnxruntime.__version__
    installed.require_onnxruntime(onnxruntime.__version__)


@pytest.mark.parametrize("arguments", [("--version",), ("check", DIGITS)], ids=lambda a: a[0])
def test_another_distribution_of_the_module(arguments: tuple[str, ...]):
    done = python(OTHER_DISTRIBUTION + COMMAND, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert onnxruntime.__version__ in done.stdout or "8 of 8 nodes" in done.stdout


def test_preparing_with_another_distribution_of_the_module(tmp_path: Path):
    done = python(OTHER_DISTRIBUTION + COMMAND, "prepare", DIGITS, "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert onnxruntime.__version__ in (tmp_path / "manifest.json").read_text()


@pytest.mark.parametrize("verb", [("check", DIGITS), ("--version",)], ids=lambda verb: verb[0])
def test_a_command_without_onnxruntime(verb: tuple[str, ...]):
    done = python(WITHOUT + COMMAND, *verb)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"ep-nnapi: {NO_ONNXRUNTIME}\n"


def test_python_without_onnxruntime():
    done = python(f"{WITHOUT}\nimport ep_nnapi; ep_nnapi.register()")
    assert done.stderr.splitlines()[-1] == f"ep_nnapi.installed.DependencyError: {NO_ONNXRUNTIME}"
    assert "During handling" not in done.stderr


def test_what_needs_no_onnxruntime_works_without():
    done = python(f"{WITHOUT}\nimport ep_nnapi; print(ep_nnapi.libneuralnetworks_path())")
    assert done.stdout.endswith("libneuralnetworks.so\n"), done.stderr


@pytest.mark.parametrize("version", ["1.24.4", "0.9.0", "1.24.0.dev20260101"])
def test_an_onnxruntime_that_is_too_old(version: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NnapiError) as found:
        installed.require_onnxruntime(version)
    assert str(found.value) == (
        f"onnxruntime {version} is installed and ep-nnapi needs 1.25 or newer: "
        "pip install --upgrade onnxruntime (or the build of it that you have)"
    )
    monkeypatch.setattr(onnxruntime, "__version__", version)
    with pytest.raises(installed.DependencyError):
        ep_nnapi.register()


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("get_library_path", "ep_nnapi"),
        ("context_library_path", "NnapiContextExecutionProvider"),
    ],
)
def test_the_libraries_refuse_an_onnxruntime_that_is_too_old(library: str, name: str):
    """In any language: the check is theirs."""
    done = python(OLD_ONNXRUNTIME, library)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name} needs onnxruntime 1.25 or newer\n1 0\n"


@pytest.mark.parametrize("version", ["1.25.0", "1.33.0.dev20261101002", "2.0.0", "unknown"])
def test_an_onnxruntime_that_may_do(version: str):
    installed.require_onnxruntime(version)


def test_another_package_named_partitioner(tmp_path: Path):
    """PyPI has one; before ours on the path, or written over it."""
    (tmp_path / "partitioner").mkdir()
    (tmp_path / "partitioner" / "__init__.py").write_text("def main(): ...\n")
    said = (
        f"the package partitioner in {tmp_path}/partitioner is not the one of ep-nnapi: pip "
        "uninstall partitioner, then pip install --force-reinstall --no-deps ep-nnapi"
    )
    done = python(f"import sys{COMMAND}", "check", DIGITS, path=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"ep-nnapi: {said}\n"
    done = python(f"import ep_nnapi; ep_nnapi.check({DIGITS!r})", path=tmp_path)
    assert done.stderr.splitlines()[-1] == f"ep_nnapi.installed.DependencyError: {said}"


def test_without_pytorch_the_way_to_one_without_cuda_is_said():
    done = python("import sys; sys.modules['torch'] = None; import ep_nnapi.torch")
    assert done.stderr.splitlines()[-1] == (
        "ep_nnapi.nnapi.errors.NnapiError: PyTorch is not installed: pip install "
        "'ep-nnapi[torch]'; where CUDA is not wanted, first pip install torch --index-url "
        "https://download.pytorch.org/whl/cpu"
    )
