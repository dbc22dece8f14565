"""Selection of the NNAPI runtime and device of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ep_nnapi.errors import OptionError, suggestion
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host.engines.runtime import host_runtime
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device, Runtime
from ep_nnapi.options import HOST
from ep_nnapi.target import NnapiFlag


@cache
def _host() -> Runtime:
    return host_runtime()


RUNTIMES: dict[str, Callable[[], Runtime]] = {HOST: _host}


def open_runtime(name: str) -> Runtime:
    """Returns the runtime with the name `name`, a value of the option `runtime`."""
    return RUNTIMES[name]()


def devices(runtime: str = HOST) -> tuple[Device, ...]:
    """Returns the devices of a runtime, as printed by `ep-nnapi devices`; default: "host"."""
    return tuple(open_runtime(runtime).devices())


def choose_device(runtime: Runtime, name: str | None, flags: NnapiFlag) -> Device:
    """Returns the device that clusters are compiled for.

    It is the device named `name`; if that is None, the first one that is not a CPU, else the first
    one. CPU_ONLY and CPU_DISABLED restrict the choice as Android documents them.
    Raises OptionError if the name is unknown or no device is left.
    """
    left = runtime.devices()
    if name is not None:
        found = [d for d in left if d.name == name]
        names = ", ".join(d.name for d in left)
        if not found:
            near = suggestion(name, (d.name for d in left))
            raise OptionError(f"device {name!r} is unknown; there are {names}{near}")
        left = tuple(found)
    if NnapiFlag.CPU_ONLY in flags:
        left = tuple(d for d in left if d.name == REFERENCE_DEVICE)
    elif NnapiFlag.CPU_DISABLED in flags:
        left = tuple(d for d in left if d.type is not DeviceCode.CPU)
    if not left:
        flag = flags & (NnapiFlag.CPU_ONLY | NnapiFlag.CPU_DISABLED)
        raise OptionError(f"flag {flag.name} leaves no device; drop it or name another device")
    return min(left, key=lambda d: d.type is DeviceCode.CPU)


def fallback_device() -> tuple[Runtime, Device]:
    """Returns the runtime and device to use when a device fails: the host's reference device."""
    runtime = open_runtime(HOST)
    return runtime, choose_device(runtime, REFERENCE_DEVICE, NnapiFlag.NONE)
