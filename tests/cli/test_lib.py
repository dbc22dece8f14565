"""`ep-nnapi lib`: the library for C programs, and its header."""

import ctypes
import json
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


def test_json_has_what_the_single_arguments_print(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        assert main(["lib", *arguments]) == 0
        return capsys.readouterr().out.rstrip("\n")

    names = ["cflags", "libs", "pkgconfigdir", "cmakedir"]
    expected = {"path": printed()} | {name: printed(f"--{name}") for name in names}
    assert json.loads(printed("--json")) == expected


@pytest.mark.parametrize("other", [["--cflags"], ["--cmakedir"], ["--header", "nowhere"]])
def test_json_goes_with_nothing_else(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lib", "--json", *other]) == 2
    assert "give it alone" in capsys.readouterr().err
    assert not Path("nowhere").exists()
