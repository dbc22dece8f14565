"""The phones that are offered: feature levels, and profiles in a folder."""

import shutil
from pathlib import Path

import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.provider import virtual_devices as virtual
from ep_nnapi.provider.virtual_devices import VirtualDevice
from tests.nnapi.profile.examples import path_of

LEVEL_5 = VirtualDevice("feature-level-5", DeviceCode.ACCELERATOR, 5, ("feature_level", "5"))
PHONE = VirtualDevice("phone", DeviceCode.GPU, 5, ("device_profile", "/phone.json"))


def test_levels_come_highest_first():
    found = [(d.name, d.feature_level) for d in virtual.level_devices()]
    assert found == [(f"feature-level-{n}", n) for n in range(8, 0, -1)]


def test_without_a_folder_there_are_the_sample_devices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(virtual.FOLDER_VARIABLE, raising=False)
    names = [d.name for d in virtual.profiled_devices() if isinstance(d, VirtualDevice)]
    assert names == ["sample-float", "sample-float-engine", "sample-minimal", "sample-quant"]


def test_the_folder_has_a_device_for_each_profile(monkeypatch, tmp_path: Path):
    """Named like its file; a damaged one becomes an error, other files are no profiles."""
    shutil.copy(path_of("level-5"), tmp_path / "pixel.json.gz")
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.setenv(virtual.FOLDER_VARIABLE, str(tmp_path))
    broken, pixel = virtual.profiled_devices()
    assert isinstance(broken, OptionError)
    assert str(broken).startswith(f"{tmp_path / 'broken.json'} is no device profile")
    option = ("device_profile", str(tmp_path / "pixel.json.gz"))
    assert pixel == VirtualDevice("pixel", DeviceCode.ACCELERATOR, 5, option)


def test_a_missing_folder_is_refused(monkeypatch, tmp_path: Path):
    monkeypatch.setenv(virtual.FOLDER_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(OptionError, match=r"EP_NNAPI_DEVICE_PROFILES is .*: No such file"):
        virtual.profile_paths()


@pytest.mark.parametrize(
    ("device", "given", "merged"),
    [
        (LEVEL_5, {"flags": "1"}, {"flags": "1", "runtime": "host", "feature_level": "5"}),
        (LEVEL_5, {"feature_level": "3"}, {"runtime": "host", "feature_level": "3"}),
        (LEVEL_5, {"api_level": "29"}, {"runtime": "host", "api_level": "29"}),
        (PHONE, {"runtime": "host"}, {"runtime": "host", "device_profile": "/phone.json"}),
        (
            PHONE,
            {"feature_level": "5"},
            {"runtime": "host", "device_profile": "/phone.json", "feature_level": "5"},
        ),
    ],
)
def test_options_of_a_session(device: VirtualDevice, given, merged):
    assert device.merged(given) == merged


@pytest.mark.parametrize(
    ("device", "given", "message"),
    [
        (LEVEL_5, {"feature_level": "6"}, "feature_level is 6, but the virtual device feature-l"),
        (
            PHONE,
            {"feature_level": "6"},
            "feature_level is 6, but the virtual device phone offers 5",
        ),
        (PHONE, {"device_profile": "/other.json"}, "device_profile is set by the virtual device p"),
        (LEVEL_5, {"device_profile": "/x.json"}, "device_profile is set by the virtual device fe"),
        (LEVEL_5, {"runtime": "system"}, "runtime is set by the virtual device feature-level-5;"),
        (LEVEL_5, {"colour": "red"}, "option 'colour' is unknown"),
    ],
)
def test_options_that_contradict_the_device_are_refused(device: VirtualDevice, given, message):
    with pytest.raises(OptionError, match=message):
        device.merged(given)


def test_a_device_without_options_of_the_callers():
    options = LEVEL_5.session_options()
    assert (options.feature_level, options.runtime) == (5, "host")
