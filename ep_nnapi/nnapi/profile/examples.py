"""Example profiles in this package: sample devices, and a device of each feature level.

`python -m ep_nnapi.nnapi.profile.examples` writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.profile.answers import Profile
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.record import record_all
from ep_nnapi.nnapi.profile.sample import Sample
from ep_nnapi.nnapi.profile.sample_devices import RULES, SampleDevice, everything

FOLDER = Path(__file__).with_name("devices")
"""The folder of the example profiles."""


def devices() -> list[SampleDevice]:
    """The devices that the examples are recorded from."""
    levels = range(1, HIGHEST_LEVEL + 1)
    by_level = [SampleDevice(f"level-{n}", everything, feature_level=n) for n in levels]
    return by_level + [SampleDevice(name, rule) for name, rule in RULES.items()]


def profiles(samples: Iterable[Sample] | None = None) -> list[Profile]:
    """The profiles of all example devices, recorded now."""
    runtimes = [HostRuntime([device], device.feature_level) for device in devices()]
    return record_all([(r, r.devices()[0]) for r in runtimes], samples)


def path_of(name: str) -> Path:
    """The file of the example device of that name."""
    return FOLDER / f"{name}.json.gz"


def sample_profiles() -> list[Path]:
    """The files of the sample devices, which support part of the operations."""
    return [path_of(name) for name in RULES]


if __name__ == "__main__":
    for profile in profiles():
        write(profile, path_of(profile.device.name))
