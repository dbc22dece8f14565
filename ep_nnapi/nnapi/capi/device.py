# ruff: noqa: N802 (functions have the NDK's names)
"""Devices, the runtime behind the library, and their calls.

Source: NDK ANeuralNetworks_*, ANeuralNetworksDevice_*.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.refusal import Handles, bad_data, unexpected_null
from ep_nnapi.nnapi.codes import feature_level_code
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.concurrent_runs import DEFAULT_LOOP_TIMEOUT_NS, MAXIMUM_LOOP_TIMEOUT_NS
from ep_nnapi.nnapi.host.registry import host_runtime, is_named_only, least_work, sources
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import Device, Runtime
from ep_nnapi.nnapi.work import work

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


LEVEL_VARIABLE = "EP_NNAPI_FEATURE_LEVEL"
DEVICES_VARIABLE = "EP_NNAPI_DEVICES"
"""Further devices, separated by commas, for a client that names none the first to be tried."""
_TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""Keeps ONNX Runtime from starting a thread when it is loaded. That thread is missing in a forked
child, which then hangs when it exits."""


@dataclass(frozen=True, slots=True)
class CDevice:
    """A device and its C strings, which stay valid for the life of the process."""

    device: Device
    name: CData
    version: CData

    def getName(self) -> CData:
        """Gets the device's unique name."""
        return self.name

    def getVersion(self) -> CData:
        """Gets the device's version, free text."""
        return self.version

    def getType(self) -> int:
        """Gets the device's DeviceTypeCode."""
        return self.device.type

    def getFeatureLevel(self) -> int:
        """Gets the code of the device's feature level."""
        return feature_level_code(self.device.feature_level)

    def getExtensionSupport(self, name: str) -> bool:
        """Always false: no device here has vendor extensions."""
        return False

    def wait(self) -> None:
        """Returns at once: host devices are always ready."""


@cache
def runtime() -> Runtime:
    """Returns the runtime of all calls, with the feature level and devices configured.

    Raises OptionError if an environment variable names a level or a device that does not exist.
    """
    os.environ.setdefault(_TELEMETRY_VARIABLE, "1")  # ONNX Runtime is loaded later
    level = os.environ.get(LEVEL_VARIABLE, "") or "8"
    if not level.isdecimal():
        raise OptionError(f"{LEVEL_VARIABLE} is {level!r}, not a number")
    names = tuple(filter(None, os.environ.get(DEVICES_VARIABLE, "").split(",")))
    for name in names:
        if not is_named_only(name):
            known = ", ".join(n for source in sources() for n in source.names)
            raise OptionError(f"{DEVICES_VARIABLE} names {name!r}, which is none of {known}")
    return host_runtime(int(level), names)


def feature_level() -> int:
    """Returns the feature level that models are validated against."""
    return runtime().feature_level


DEVICES: Handles[CDevice] = Handles("Device", CDevice)


@cache
def devices() -> tuple[int, ...]:
    """Returns the handles of the devices, in the runtime's order."""
    c_devices = [
        CDevice(d, ffi.new("char[]", d.name.encode()), ffi.new("char[]", d.version.encode()))
        for d in runtime().devices()
    ]
    return tuple(map(DEVICES.add, c_devices))


def selected_devices(pointer: CData, count: int) -> tuple[Device, ...]:
    """Returns the devices of a list of handles; reading stops at the first invalid one.

    Raises Refused: UNEXPECTED_NULL for a null handle, BAD_DATA for a duplicate or unknown one.
    """
    chosen = list[int]()
    for place in range(count):
        handle = pointer[place]
        if handle == 0:
            raise unexpected_null(f"devices[{place}]")
        if handle in chosen:
            raise bad_data(f"devices[{place}] is there twice")
        DEVICES[handle]
        chosen.append(handle)
    return tuple(DEVICES[handle].device for handle in chosen)


def default_devices(model: Model | None, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return a runtime's devices in the order in which they are tried for a model.

    Those that are there because the user names them are first.

    model   None if it has a vendor's operation
    """
    amount = work(model) if model is not None else 0

    def place(device: Device) -> float:
        least = least_work(device.name)
        return least if least <= amount else inf

    return tuple(sorted(devices, key=place))


def getDeviceCount() -> int:
    """Gets the number of devices."""
    return len(devices())


def getDevice(index: int, out: CData) -> None:
    """Gets the device at an index in the runtime's order."""
    handles = devices()
    if index >= len(handles):
        raise bad_data(f"device {index} of {len(handles)}")
    out[0] = handles[index]


def getDefaultLoopTimeout() -> int:
    """Returns the default time limit of a WHILE loop, in nanoseconds."""
    return DEFAULT_LOOP_TIMEOUT_NS


def getMaximumLoopTimeout() -> int:
    """Returns the greatest time limit of a WHILE loop, in nanoseconds."""
    return MAXIMUM_LOOP_TIMEOUT_NS


def getRuntimeFeatureLevel() -> int:
    """Returns the code of the feature level that models are validated against."""
    return feature_level_code(feature_level())
