"""Nodes that each optimization level leaves to NNAPI, as ONNX Runtime's documentation says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ep_nnapi.cli.main import main
from tests.preparation.tables import DIGITS, LEVELS, left_by

MNIST = DIGITS.parents[2] / "shared" / "models" / "mnist.onnx"
MODELS = [
    pytest.param(DIGITS, id="digits"),
    pytest.param(
        MNIST,
        id="mnist",
        marks=pytest.mark.skipif(not MNIST.exists(), reason="not part of the repository"),
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_levels_do_what_the_documentation_says(model: Path) -> None:
    basic, extended, aware = (left_by(model, level, "builtin-nnapi")[2:] for level in LEVELS)
    assert basic == aware == ("8", "1", "none")
    assert extended == ("6", "2", "2 FusedConv")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", MODELS)
def test_check_shows_it(model: Path, level: str, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["--optimization-level", level, "--target", "builtin-nnapi"]
    assert main(["check", str(model), *given]) == 0
    printed = capfd.readouterr().out
    if level == "extended":
        assert "NNAPI takes 4 of 6 nodes in 2 clusters" in printed
        assert re.search(r"^FusedConv +2 ", printed, re.MULTILINE)
    else:
        assert "NNAPI takes 8 of 8 nodes in 1 cluster at" in printed


@pytest.mark.parametrize("model", MODELS)
def test_our_own_target_takes_fused_convolutions(model: Path) -> None:
    assert left_by(model, "extended", "ep-nnapi")[2:] == ("6", "1", "none")
