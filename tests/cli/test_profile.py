"""`profile`: records a device's answers, which `check` and others take by --device-profile."""

import json
from pathlib import Path

import pytest

from ep_nnapi.costs import PHONE, Calibration
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.nnapi.spec import BY_NAME
from tests.cli.command import DIGITS, DONE, UNUSABLE
from tests.faulty import installed
from tests.nnapi.profile.examples import SampleDevice


@pytest.fixture
def profile(shows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The profile of a device that declines pools, of few samples and the model of digits."""
    few = [*seeds_of(BY_NAME["MAX_POOL_2D"]), *seeds_of(BY_NAME["RELU"])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: few)
    with installed(SampleDevice("phone", lambda use: use.spec.name != "MAX_POOL_2D")):
        out = shows("profile", DIGITS, "-o", str(tmp_path / "device.json"))
    assert out.splitlines() == [
        f"{tmp_path / 'device.json'}: phone, feature level 8",
        "supports 1 of 2 operations in at least one form",
        "supports 12 of 18 operations of the given models",
    ]
    return tmp_path / "device.json"


def test_json(shows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    few = [*seeds_of(BY_NAME["MAX_POOL_2D"]), *seeds_of(BY_NAME["RELU"])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: few)
    output = str(tmp_path / "device.json")
    with installed(SampleDevice("phone", lambda use: use.spec.name != "MAX_POOL_2D")):
        out = shows("profile", DIGITS, "-o", output, "--json")
    assert json.loads(out) == {
        "output": output,
        "device": "phone",
        "feature_level": 8,
        "counts": [
            {"of": "operations in at least one form", "supported": 1, "asked": 2},
            {"of": "operations of the given models", "supported": 12, "asked": 18},
        ],
        "calibration": None,
    }


def test_times(shows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    few = [*seeds_of(BY_NAME["RELU"])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: few)
    reference = Device("nnapi-reference", DeviceCode.CPU, "1", 8)
    measured = Calibration.of("host", reference, PHONE)
    measure = "ep_nnapi.diagnostics.calibrate.measure_costs"
    monkeypatch.setattr(measure, lambda *_: measured)
    output = str(tmp_path / "device.json")
    out = shows("profile", "--times", "-o", output)
    assert out.splitlines()[-1] == "has measured times, by which --partitioning worth_it estimates"
    assert json.loads(Path(output).read_text())["calibration"] == measured.to_json()
    out = shows("check", DIGITS, "--partitioning", "worth_it", "--device-profile", output)


def test_check_and_run_with_a_profile(shows, profile: Path):
    report = json.loads(shows("check", DIGITS, "--json", "--device-profile", profile))
    assert (report["taken"], len(report["clusters"])) == (6, 3)
    assert {r["detail"] for r in report["rejections"]} == {"phone declines MAX_POOL_2D (profile)"}
    out = shows("run", DIGITS, "--no-latency", "--device-profile", str(profile))
    assert "NNAPI takes 6 of 8 nodes in 3 clusters" in out


def test_levels_are_those_of_the_recorded_device(cli, profile: Path):
    text = profile.read_text()
    code, out, _ = cli("check", DIGITS, "--levels", "--device-profile", str(profile))
    assert (code, len(out.splitlines())) == (DONE, 9)
    profile.write_text(text.replace('"version": 1', '"version": 9', 1))
    code, _, err = cli("check", DIGITS, "--device-profile", str(profile))
    assert code == UNUSABLE
    assert "has version 9, not 1 or 2; record it again with ep-nnapi profile" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o/--output"),
        (["-o", "x.json", "--device", "gpu-7"], "device 'gpu-7' is unknown"),
        (["-o", "x.json", "none.onnx"], "none.onnx: no such file"),
        (
            ["-o", "x.json", "--runtime", "none.so"],
            "it must be host, system, litert, adb, adb:SERIAL, exec:COMMAND or the",
        ),
    ],
)
def test_what_cannot_be_recorded(cli, arguments: list[str], message: str):
    code, out, err = cli("profile", *arguments)
    assert (code, out) == (UNUSABLE, "")
    assert message in err
    assert err.count("\n") == 1
