"""`record_profile`: the file that it writes, and models whose operations it records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi import ModelError
from ep_nnapi.costs.calibration import Calibration
from ep_nnapi.costs.cost_model import CostClass, CostModel, Rates
from ep_nnapi.diagnostics import calibrate
from ep_nnapi.nnapi.profile.file import read, write
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.spec import BY_NAME

DIGITS = "models/digits.onnx"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [*seeds_of(BY_NAME["RELU"])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: samples)


@pytest.mark.usefixtures("few")
def test_the_profile_is_written(tmp_path: Path):
    found = ep_nnapi.record_profile(tmp_path / "device.json", device="host-cpu")
    assert found == read(tmp_path / "device.json")
    assert (found.device.name, found.exact) == ("host-cpu", {})
    assert {operation for operation, *_ in found.groups} == {"RELU"}


@pytest.mark.usefixtures("few")
def test_the_same_device_through_the_c_api(tmp_path: Path):
    """The library's client asks the same runtime through Android's C functions."""
    library = ep_nnapi.libneuralnetworks_path()
    names = {"device": "nnapi-reference"}
    there = ep_nnapi.record_profile(tmp_path / "a.json", [DIGITS], runtime=library, **names)
    here = ep_nnapi.record_profile(tmp_path / "b.json", [DIGITS], **names)
    assert there == here
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


@pytest.mark.usefixtures("few")
def test_times_are_measured_and_decide_what_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calibrate, "_MEASURE_SECONDS", 0.0)
    path, steps = tmp_path / "device.json", []
    found = ep_nnapi.record_profile(
        path, [DIGITS], times=True, progress=lambda done, of: steps.append((done, of))
    )
    assert steps[-1] == (len(steps), len(steps))
    assert read(path) == found
    assert found.calibration is not None
    assert found.calibration["device"] == found.device.name
    free = Rates(0, 0, dict.fromkeys(CostClass, 0.0))
    costly = Rates(1, 1, dict.fromkeys(CostClass, 1.0))
    for per_cluster, taken in ((1.0, 8), (1e9, 0)):
        costs = CostModel(costly, free, per_byte=0, per_cluster=per_cluster)
        measured = Calibration.of("system", found.device, costs)
        write(replace(found, calibration=measured.to_json()), path)
        report = ep_nnapi.check(DIGITS, partitioning="worth_it", device_profile=path)
        assert report.taken == taken


def test_a_model_that_is_none_is_told_before_anything_is_asked(tmp_path: Path):
    with pytest.raises(ModelError, match="no such file"):
        ep_nnapi.record_profile(tmp_path / "device.json", [DIGITS, "none.onnx"])
    assert not list(tmp_path.iterdir())
