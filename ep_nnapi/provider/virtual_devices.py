"""Virtual devices: the phones that ONNX Runtime's tools can compile for on this machine.

There is one for each NNAPI feature level, and one for each device profile in a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import os_errors
from ep_nnapi.nnapi.profile.file import EXAMPLES, read
from ep_nnapi.options.table import HOST, Options, parse

FOLDER_VARIABLE = "EP_NNAPI_DEVICE_PROFILES"
"""Environment variable with a folder of device profiles, in place of this package's samples."""
_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """A device that a session on the host runtime takes the place of.

    option   the provider's option that makes the host runtime this device, and its value
    """

    name: str
    type: DeviceCode
    feature_level: int
    option: tuple[str, str]

    def merged(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the options of a session on this device; `given` are the caller's.

        A lower feature level may be chosen. Raises OptionError if `given` has a higher one, another
        runtime or another device profile.
        """
        own = dict([("runtime", HOST), self.option])
        chosen = parse(given)
        if chosen.feature_level is not None:
            chosen.lowering_target(self.feature_level, f"the virtual device {self.name}")
            own.pop("feature_level", None)
        for name in ("runtime", "device_profile"):
            if given.get(name) not in (None, own.get(name)):
                raise OptionError(
                    f"{name} is set by the virtual device {self.name}; drop it or choose another "
                    "device"
                )
        return {**given, **own}

    def session_options(self) -> Options:
        """Returns the options of a session on this device without options of the caller's."""
        return parse(self.merged({}))


def level_devices() -> list[VirtualDevice]:
    """Returns a device for each feature level, the highest first: it has all operations of it.

    ONNX Runtime takes the first device of a provider where `providers=` in Python names it.
    """
    return [
        VirtualDevice(f"feature-level-{n}", DeviceCode.ACCELERATOR, n, ("feature_level", str(n)))
        for n in range(HIGHEST_LEVEL, 0, -1)
    ]


def profiled_device(path: Path) -> VirtualDevice:
    """Returns the device whose answers are in a profile, named like the file.

    Raises OptionError with one sentence if it is no profile.
    """
    device = read(path).device
    name = path.name.removesuffix(".gz").removesuffix(".json")
    option = ("device_profile", str(path))
    return VirtualDevice(name, device.type, device.feature_level, option)


def profile_paths() -> list[Path]:
    """Returns the profiles in the folder that FOLDER_VARIABLE names, else those of samples.

    Raises OptionError if that folder cannot be read.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return sorted(EXAMPLES.glob("sample-*"), key=lambda path: path.name.split("."))
    with os_errors(f"{FOLDER_VARIABLE} is {folder}"):
        found = sorted(Path(folder).absolute().iterdir())
    return [path for path in found if path.name.endswith(_SUFFIXES)]


def profiled_devices() -> Iterator[VirtualDevice | OptionError]:
    """Yields the device of each profile in the folder; an error for one that is unusable."""
    for path in profile_paths():
        try:
            yield profiled_device(path)
        except OptionError as error:
            yield error
