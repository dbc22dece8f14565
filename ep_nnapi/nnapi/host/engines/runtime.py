"""The host runtime with all devices of this package, in the order in which they are tried."""

from __future__ import annotations

from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.engines.device import CpuDevice
from ep_nnapi.nnapi.host.engines.plugin import plugin_device
from ep_nnapi.nnapi.host.reference import ReferenceDevice


def host_runtime(feature_level: int = 8, plugin: str | None = None) -> HostRuntime:
    """Return a runtime with the devices nnapi-reference and host-cpu, then `plugin`, if given.

    nnapi-reference is first, so that a C program that names no device may fork: ONNX Runtime's
    threads do not survive in a child. Sessions prefer host-cpu (provider/devices.py).

    Raises OptionError for a feature level that is not 1 to 8, and as `plugin_device`.
    """
    others = () if plugin is None else (plugin_device(plugin),)
    return HostRuntime((ReferenceDevice(), CpuDevice(), *others), feature_level)
