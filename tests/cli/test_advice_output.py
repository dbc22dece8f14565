"""`check --advise`: text, JSON, and what it does not go with."""

from __future__ import annotations

import json

import pytest

from ep_nnapi.cli.main import main
from tests.cli.command import DIGITS, DONE, UNUSABLE


def test_json_has_every_road(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--advise", "--json"]) == DONE
    roads = json.loads(capsys.readouterr().out)
    assert [road["name"] for road in roads] == ["CPU", "XNNPACK", "WebGPU", "QNN", "LiteRT"]
    assert (roads[4]["taken"], roads[4]["nodes"]) == (8, 8)
    assert roads[2]["taken"] is None


@pytest.mark.parametrize("other", [["--levels"], ["--strict"], ["--optimization-level", "all"]])
def test_it_stands_alone(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--advise", *other]) == UNUSABLE
    assert f"drop {other[0]}" in capsys.readouterr().err


def test_a_missing_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing.onnx", "--advise"]) == UNUSABLE
    assert "missing.onnx" in capsys.readouterr().err
