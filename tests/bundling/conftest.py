"""A prepared model and the C parts for this machine, made once."""

from pathlib import Path

import onnx
import pytest

from tests.bundling.phone import Phone, native_folder, phone
from tests.native.build import ROOT
from tests.native.sessions import prepared


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native_folder(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, prepared; not to be changed."""
    return prepared(onnx.load(ROOT / "models" / "digits.onnx"), tmp_path_factory.mktemp("digits"))


@pytest.fixture
def attached(tmp_path: Path) -> Phone:
    return phone(tmp_path)
