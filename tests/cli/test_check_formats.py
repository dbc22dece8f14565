"""`check --format`: the files that it names, and arguments that contradict it."""

from __future__ import annotations

from pathlib import Path

import pytest

import ep_nnapi
from tests.cli.command import DIGITS, DONE, NEGATIVE

SUMMARY = ep_nnapi.check(DIGITS).summary


def test_files_of_model_explorer_are_listed(cli, tmp_path: Path):
    output = tmp_path / "g.json"
    names = ["g.json", "g.decision.json", "g.reason.json", "g.time.json"]
    lines = [f"{SUMMARY}.", *(str(tmp_path / name) for name in names)]
    code, out, err = cli("check", DIGITS, "--format", "model-explorer", "-o", output)
    assert (code, out.splitlines(), err) == (DONE, lines, "")
    assert all((tmp_path / name).is_file() for name in names)


def test_netron_with_strict(cli, tmp_path: Path):
    output = tmp_path / "d.onnx"
    arguments = ("--format", "netron", "--output", output, "--strict", "--exclude", "MaxPool")
    code, out, _ = cli("check", DIGITS, *arguments)
    assert code == NEGATIVE
    assert out.splitlines()[-1] == str(output)
    assert output.is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "netron"], "give both or neither"),
        (["-o", "x.onnx"], "give both or neither"),
        (["--format", "netron", "-o", "x", "--levels"], "drop --levels"),
        (["--format", "netron", "-o", "x", "--json"], "drop --levels"),
        (["--format", "netron", "-o", "x", "--optimization-level", "all"], "drop --levels"),
        (["--format", "dot", "-o", "x"], "invalid choice: 'dot'"),
    ],
)
def test_contradictions(refuses, arguments: list[str], says: str):
    refuses("check", DIGITS, *arguments, says=says)
