"""The devices of this package for the host runtime: host-cpu, and others by their names."""

from __future__ import annotations

from math import inf

from ep_nnapi.nnapi.host import HostDevice
from ep_nnapi.ort_devices.device import HOST_CPU, LARGE, CpuDevice
from ep_nnapi.ort_devices.plugin import EXTRAS, PREFIX, is_plugin, plugin_device


class OrtDevices:
    """Devices on ONNX Runtime's providers; a `DeviceSource`."""

    names = (*EXTRAS, f"{PREFIX}NAME")

    def always(self) -> tuple[HostDevice, ...]:
        """Return host-cpu."""
        return (CpuDevice(),)

    def opens(self, name: str) -> bool:
        """Return True for devices on plugin providers."""
        return is_plugin(name)

    def named(self, name: str) -> HostDevice:
        """Open a device on a plugin provider; raises OptionError as `plugin_device`."""
        return plugin_device(name)

    def least_work(self, name: str) -> float:
        """Return 0 for devices that a user names, what a session is worth on host-cpu."""
        return 0 if is_plugin(name) else LARGE if name == HOST_CPU else inf


ORT_DEVICES = OrtDevices()
"""The entry point."""
