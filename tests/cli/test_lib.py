"""`ep-nnapi lib`: the library for C programs, and its header."""

import ctypes
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.cli.main import main


def test_lib_prints_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lib"]) == 0
    path = capsys.readouterr().out.strip()
    assert path == ep_nnapi.libneuralnetworks_path()
    assert ctypes.CDLL(path).ANeuralNetworksModel_create


def test_lib_writes_the_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lib", "--header", str(tmp_path)]) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written == tmp_path / "android" / "NeuralNetworks.h"
    assert "ANeuralNetworksModel_create" in written.read_text()
