"""A prepared model, the library with faults and sanitized programs, once for a file of tests."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from tests.native.build import ROOT, Build, sanitized
from tests.native.sessions import prepared
from tests.nnapi.library.recorded import Shim, built


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx as one cluster."""
    return prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def _shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return built(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(_shim: Shim) -> Iterator[Shim]:
    """The library with faults, which has none before a test and after it."""
    _shim.clear()
    yield _shim
    _shim.clear()


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Leaks are findings."""
    return sanitized(tmp_path_factory.mktemp("sanitized"))


@pytest.fixture(scope="module")
def reader(build: Build) -> list[str]:
    """The command, without the file."""
    return [str(build.program("read_many")), str(build.stand_in)]
