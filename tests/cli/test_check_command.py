"""Gates of `check`: baselines of models and of directories."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from onnx import helper

from ep_nnapi.cli.main import main
from tests.cli.command import DIGITS, DONE, NEGATIVE, saved


def test_a_baseline_that_is_kept_and_one_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "old.json"
    assert main(["check", DIGITS, "--json"]) == 0
    baseline.write_text(capsys.readouterr().out)
    assert main(["check", DIGITS, "--baseline", str(baseline)]) == 0
    assert main(["check", DIGITS, "--baseline", str(baseline), "--exclude", "MaxPool"]) == 1
    printed = capsys.readouterr().err
    assert "clusters grew from 1 to 3" in printed
    assert "border bytes grew from 296 to " in printed


def test_a_baseline_of_more_nodes_or_another_model(cli, tmp_path: Path):
    path, baseline = saved(tmp_path, helper.make_node("Relu", ["x"], ["y"], "r")), tmp_path / "b"
    baseline.write_text(cli("check", path, "--json")[1])
    code, _, err = cli("check", path, "--baseline", baseline, "--exclude", "Relu")
    since = f"since {baseline}\n"
    assert (code, err) == (
        NEGATIVE,
        f"ep-nnapi: nodes on NNAPI fell from 1 of 1 to 0 of 1 {since}"
        f"ep-nnapi: Relu is refused for EXCLUDED {since}",
    )
    code, _, err = cli("check", DIGITS, "--baseline", baseline)
    another = f"ep-nnapi: the model is another (8 nodes new and 1 gone) {since}"
    assert (code, err) == (NEGATIVE, another)


def test_a_directory_has_a_row_for_each_model_and_a_baseline(cli, tmp_path: Path):
    for name in ("a", "b/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        path = saved(tmp_path, helper.make_node("Relu", ["x"], ["y"], name))
        path.rename(tmp_path / f"{name}.onnx")
    code, out, err = cli("check", tmp_path)
    assert (code, err) == (DONE, "")
    assert [row.split()[:4] for row in out.splitlines()[1:]] == [
        ["a.onnx", "1", "1", "1"],
        ["b/c.onnx", "1", "1", "1"],
    ]
    baseline = tmp_path / "base.json"
    baseline.write_text(cli("check", tmp_path, "--json")[1])
    gate = ("check", tmp_path, "--baseline", baseline)
    assert cli(*gate)[::2] == (DONE, "")
    code, _, err = cli(*gate, "--exclude", "a", "--exclude", "Relu", "--strict")
    assert code == NEGATIVE
    assert err.count("nodes on NNAPI fell from 1 of 1 to 0 of 1") == 2
    (tmp_path / "a.onnx").rename(tmp_path / "d.onnx")
    code, _, err = cli(*gate)
    since = f"since {baseline}\n"
    assert (code, err) == (
        NEGATIVE,
        f"ep-nnapi: d.onnx is new {since}ep-nnapi: a.onnx is gone {since}",
    )
    (tmp_path / "d.onnx").write_bytes(b"")
    code, out, err = cli("check", tmp_path, "--json")
    assert (code, err) == (NEGATIVE, "ep-nnapi: d.onnx: the file is empty\n")
    assert json.loads(out)[1]["model"] == {"path": "d.onnx"}


@pytest.mark.parametrize("argument", ["--levels", "--advise"])
def test_a_directory_has_no_report_of_one_model(argument: str, refuses, tmp_path: Path):
    refuses("check", tmp_path, argument, says=f"{argument} is about one model; give one")


@pytest.mark.parametrize("argument", ["--strict", "--baseline=b.json"])
def test_levels_are_no_gate(argument: str, refuses):
    refuses("check", DIGITS, "--levels", argument, says="exclude each other")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"clusters": 3}', "no json", "[" * 99999])
def test_a_baseline_that_is_no_report(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "old.json"
    baseline.write_text(text)
    assert main(["check", DIGITS, "--baseline", str(baseline)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_baseline_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--baseline", "nowhere.json"]) == 2
    assert "nowhere.json: no such baseline" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["settings", "device-profile", "calibration", "baseline"])
@pytest.mark.parametrize("never_ends", ["FIFO", "/dev/zero"])
def test_a_file_that_never_ends(
    option: str, never_ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if never_ends == "FIFO":
        os.mkfifo(never_ends := str(tmp_path / "f"))
    assert main(["check", DIGITS, f"--{option}", never_ends]) == 2
    assert "cannot be read: it is no regular file" in capsys.readouterr().err
