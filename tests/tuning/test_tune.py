"""`tune` from a model to settings, with times of the test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.settings import Chosen, read_settings
from ep_nnapi.tuning import candidates
from ep_nnapi.tuning.tune import Accuracy, tuned
from tests.cli.command import DIGITS, SAMPLES
from tests.runtimes import host_only
from tests.tuning.times import Times

OPTIONS = {"device": "nnapi-reference"}
CPU = {"extended": 3.0, "all": 2.0, "thread": 4.0}
NNAPI_WINS = {**CPU, "aware": 1.0, "basic": 1.5, "FP16": 0.5, "NCHW": 1.5}
NNAPI_LOSES = {**CPU, "aware": 9.0, "basic": 9.0, "FP16": 9.0, "NCHW": 9.0}


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.os, "cpu_count", lambda: 2)


def session_with(settings: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    ep_nnapi.append_execution_provider(options, settings=settings)
    return onnxruntime.InferenceSession(DIGITS, options)


@pytest.mark.parametrize("wins", [True, False])
def test_settings_reproduce_the_choice(tmp_path: Path, wins: bool):
    found = tuned(
        DIGITS, SAMPLES, 0, Accuracy(), Times(**(NNAPI_WINS if wins else NNAPI_LOSES)), OPTIONS
    )
    path = tmp_path / "settings.json"
    found.settings.write(path)
    settings = read_settings(path)
    assert settings.provider is (Chosen.NNAPI if wins else Chosen.CPU)
    assert settings.measured["milliseconds"] == (500 if wins else 2000)
    session = session_with(path)
    assert (EP_NAME in session.get_providers()) is wins
    images = np.load(SAMPLES)["images"][:1]
    assert session.run(None, {"image": images})[0].argmax() == 0
    ep_nnapi.prepare(DIGITS, tmp_path / "out", settings=path)
    assert (tmp_path / "out" / "digits.ort").is_file()
    if wins:
        assert settings.options == {"device": "nnapi-reference", "flags": "USE_FP16"}
        assert ep_nnapi.run(DIGITS, SAMPLES, settings=path).differences[0].kind == "float16"
        return
    assert "NNAPI loses" in found.choice.reason
    with pytest.raises(OptionError, match="chooses the CPU provider"):
        ep_nnapi.run(DIGITS, SAMPLES, settings=path)


@host_only  # only there float16 is emulated
def test_a_tolerance_excludes_float16(tmp_path: Path):
    """It differs by about 3e-4 of the spread."""
    accuracy = Accuracy((), 1e-5)
    found = tuned(DIGITS, SAMPLES, 0, accuracy, Times(**NNAPI_WINS), OPTIONS)
    assert found.settings.options == OPTIONS
    (half,) = (m for m in found.candidates if "USE_FP16" in m.candidate.changes)
    assert (half.within, half.problem) == (False, "its outputs are beyond the tolerance")


@host_only
def test_accuracy_leaves_the_fewest_nodes_of_float16_to_the_cpu(tmp_path: Path):
    """With a tolerance between the errors of one and of all nodes, some may stay on NNAPI."""
    accuracy = Accuracy(SAMPLES, 2e-4)
    found = tuned(DIGITS, SAMPLES, 0, accuracy, Times(**NNAPI_WINS, CPU=0.6), OPTIONS)
    names = found.choice.best.candidate.options["exclude"]
    report = found.choice.best.report
    assert 0 < len(names) < 8
    assert report.taken == 8 - len(names)
    assert found.choice.best.verdict.worst <= 2e-4
    again = ep_nnapi.compare(
        DIGITS, SAMPLES, flags="USE_FP16", exclude=names[1:], tolerance=2e-4, **OPTIONS
    )
    assert again.verdict.worst > 2e-4  # one node fewer is too few
    assert "exclude" in found.settings.options


def test_files_among_the_options_are_not_stored(tmp_path: Path):
    given = {**OPTIONS, "cache_dir": str(tmp_path / "cache")}
    found = tuned(DIGITS, SAMPLES, 0, Accuracy(), Times(**NNAPI_WINS), given)
    assert found.not_stored == ("cache_dir",)
    assert "cache_dir" not in found.settings.options


def test_json_has_every_candidate():
    found = tuned(DIGITS, (), 5, Accuracy(), Times(**NNAPI_LOSES), OPTIONS)
    data = json.loads(json.dumps(found.to_json()))
    assert data["seed"] == 5
    assert data["best"] == "CPU all"
    by_name = {c["name"]: c for c in data["candidates"]}
    assert by_name["CPU all"]["timing"]["seconds"] == 2.0
    first = by_name["NNAPI nnapi-reference, nnapi-aware"]
    assert (first["nodes"], first["taken"], first["clusters"]) == (8, 8, 1)
    assert first["largest_difference"] < 1e-5


def test_what_cannot_be_tuned(tmp_path: Path):
    ep_nnapi.prepare(DIGITS, tmp_path, format="context", verify=False)
    with pytest.raises(ModelError, match="tune the original model"):
        ep_nnapi.tune(tmp_path / "digits_ctx.onnx")
    with pytest.raises(OptionError, match=r"seconds is 0; it must be more than 0"):
        ep_nnapi.tune(DIGITS, seconds=0)
