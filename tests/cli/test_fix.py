"""`fix`: what it prints, what it writes and when it exits 1."""

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.command import DIGITS, DONE, NEGATIVE
from tests.rewriting.test_fix import activations, masked

BUILTIN = ("--target", "builtin-nnapi")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(activations(), path)
    return path


def test_each_rewrite_with_what_it_gains(shows, cli, model: Path):
    out = model.with_name("fixed.onnx")
    said = shows("fix", model, "-o", out, *BUILTIN)
    assert said.startswith("NNAPI takes 3 of 5 nodes in 3 clusters at feature level 8.\nrewrite ")
    assert "\nClip as Max and Min (Clip) " in said
    assert "within the tolerance of 0.0001" in said
    assert " in 1 cluster at feature level 8.\n" in said
    assert said.endswith(f"\nfixed: {out}\n")
    assert cli("check", out, *BUILTIN, "--strict")[0] == DONE


def test_json(shows, model: Path):
    said = shows("fix", model, "-o", model.with_name("fixed.onnx"), *BUILTIN, "--json")
    found = json.loads(said)
    assert found["written"] is True
    assert found["steps"][-1]["after"] == {"nodes": 9, "left_to_cpu": 0, "clusters": 1}
    assert found["before"]["taken"] == 3
    assert found["differences"][0]["output"] == "y"


def test_ranges_of_int64_inputs(shows, cli, tmp_path: Path):
    model, out = tmp_path / "model.onnx", tmp_path / "fixed.onnx"
    onnx.save(masked(), model)
    code, said, _ = cli("fix", model, "-o", out)
    assert code == NEGATIVE
    assert "\nmask is INT64 of unknown range, and NNAPI has no INT64. If you know" in said
    assert ", --range mask=LOW:HIGH makes NNAPI take more.\n" in said
    said = shows("fix", model, "-o", out, "--range", "mask=0:1")
    assert "\nINT64 as INT32 (Unsqueeze) " in said
    assert cli("check", out, "--strict")[0] == DONE


@pytest.mark.parametrize("given", ["mask", "mask=1", "mask=0:", "mask=a:b"])
def test_ranges_that_are_none(refuses, tmp_path: Path, given: str):
    out = tmp_path / "fixed.onnx"
    refuses("fix", DIGITS, "-o", out, "--range", given, says="must be NAME=LOW:HIGH, as att")


def test_nothing_to_gain_is_exit_1(cli, tmp_path: Path):
    out = tmp_path / "fixed.onnx"
    code, said, _ = cli("fix", DIGITS, "-o", out)
    assert code == NEGATIVE
    assert said.endswith("\nNNAPI takes every node already: nothing is written.\n")
    code, said, _ = cli("fix", DIGITS, "-o", out, "--exclude", "Conv")
    assert code == NEGATIVE
    assert said.endswith("makes NNAPI take more: nothing is written.\n")
    assert not out.exists()


def test_what_cannot_be_fixed_is_refused(refuses, tmp_path: Path):
    out = tmp_path / "fixed.onnx"
    refuses("fix", tmp_path / "none.onnx", "-o", out, says="no such file")
    refuses("fix", DIGITS, "-o", tmp_path / "fixed.ort", says="give the path of an .onnx file")
    refuses("fix", DIGITS, "-o", out, "--input", tmp_path / "x.npy", "--fix", "y=1", says="y")
