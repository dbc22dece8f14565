"""`record_profile`: the file that it writes, and models whose operations it records."""

from __future__ import annotations

from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi import ModelError
from ep_nnapi.nnapi.profile.file import read
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


def test_a_model_that_is_none_is_told_before_anything_is_asked(tmp_path: Path):
    with pytest.raises(ModelError, match="no such file"):
        ep_nnapi.record_profile(tmp_path / "device.json", [DIGITS, "none.onnx"])
    assert not list(tmp_path.iterdir())
