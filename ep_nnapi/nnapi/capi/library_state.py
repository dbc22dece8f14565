"""Process-wide state: the runtime behind the library, its devices, its feature level."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.handles import Handles
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.registry import host_runtime, is_named_only, sources
from ep_nnapi.nnapi.runtime import Device, Runtime

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


@cache
def devices() -> tuple[Handles[CDevice], tuple[int, ...]]:
    """Returns the devices by handle, and the handles in the runtime's order."""
    handles: Handles[CDevice] = Handles("Device")
    c_devices = [
        CDevice(d, ffi.new("char[]", d.name.encode()), ffi.new("char[]", d.version.encode()))
        for d in runtime().devices()
    ]
    return handles, tuple(handles.add(s) for s in c_devices)
