"""`doctor`: a row for each operation, and an exit code that says if all is right."""

import json
from pathlib import Path

import pytest

from tests.cli.command import NEGATIVE

ODD = "tests.cli.odd_device"


def test_a_device_that_is_right(shows, tmp_path: Path):
    path = tmp_path / "device.json"
    out = shows("doctor", "--operation", "RELU", "--operation", "FLOOR", "-o", path)
    head, floor, relu, empty, *rest = out.splitlines()
    expected = [*("operation", "samples", "right", "microseconds", "nnapi-reference", "worst")]
    assert head.split() == expected
    assert (floor.split()[0], relu.split()[0], empty) == ("FLOOR", "RELU", "")
    assert relu.split()[1] == relu.split()[2]
    assert rest == [
        "host-cpu, feature level 8: 2 of 2 operations are right in all samples",
        f"written: {path}",
    ]


def test_json_of_a_device_that_is_wrong(cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ep_nnapi.diagnostics.doctor.SERVER_MODULE", ODD)
    code, out, _ = cli("doctor", "--operation", "RELU", "--operation", "MEAN", "--json")
    assert code == NEGATIVE
    found = json.loads(out)
    assert (found["output"], found["wrong"], found["declined"]) == (None, ["RELU"], ["MEAN"])
    (relu,) = found["operations"]
    assert (relu["right"], relu["microseconds"]) == (0, None)
    (flaw,) = relu["flaws"]
    assert (flaw["types"], flaw["traits"], flaw["defect"]) == ("", [], "wrong")
    assert flaw["error"] > flaw["allowed"] > 0
    code, out, _ = cli("doctor", "--operation", "RELU", "--operation", "MEAN")
    assert code == NEGATIVE
    assert out.splitlines()[-3:] == [
        "faulty, feature level 8: 0 of 1 operations are right in all samples",
        "wrong (1): RELU",
        "declined (1): MEAN",
    ]


def test_unusable(refuses):
    refuses(
        "doctor",
        "--operation",
        "RELUX",
        says="operation 'RELUX' is none that is sampled; did you mean RELU",
    )
