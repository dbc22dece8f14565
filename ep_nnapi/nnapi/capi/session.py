"""What one process shares: the runtime behind the library, its devices, its feature level."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ep_nnapi.errors import OptionError
from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.handles import Handles
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.runtime import Device, Runtime

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData

LEVEL_VARIABLE = "EP_NNAPI_FEATURE_LEVEL"


@dataclass(frozen=True, slots=True)
class Shown:
    """A device with its strings as C keeps them, for the life of the process."""

    device: Device
    name: CData
    version: CData


@cache
def runtime() -> Runtime:
    """The runtime that every call uses, of the highest level or the one asked for.

    Raises OptionError when the environment variable asks for a level that does not exist.
    """
    asked = os.environ.get(LEVEL_VARIABLE, "")
    if not asked:
        return HostRuntime()
    if not asked.isdecimal():
        raise OptionError(f"{LEVEL_VARIABLE} is {asked!r}, not a number")
    return HostRuntime(feature_level=int(asked))


def feature_level() -> int:
    """What models are validated against."""
    return runtime().feature_level


@cache
def devices() -> tuple[Handles[Shown], tuple[int, ...]]:
    """The devices by handle, and the handles in the runtime's order."""
    handles: Handles[Shown] = Handles("Device")
    shown = [
        Shown(d, ffi.new("char[]", d.name.encode()), ffi.new("char[]", d.version.encode()))
        for d in runtime().devices()
    ]
    return handles, tuple(handles.add(s) for s in shown)
