"""LiteRT's accelerators as devices of the host runtime, each only where it is named."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.errors import OptionError

if TYPE_CHECKING:
    from ep_nnapi.nnapi.host import HostDevice


class LiteRtDevices:
    """The devices of the package's library; a `DeviceSource`."""

    names = ("litert-cpu", "litert-gpu", "litert-npu")

    def always(self) -> tuple[HostDevice, ...]:
        """Return none: their extra may not be installed."""
        return ()

    def opens(self, name: str) -> bool:
        """Return True for the names."""
        return name in self.names

    def named(self, name: str) -> HostDevice:
        """Open a device; raises OptionError without the extra, or if it is not there."""
        from ep_nnapi.litert.device import open_runtime  # numpy, onnxruntime

        found = {device.name: device for device in open_runtime().accelerators}
        if name not in found:
            raise OptionError(f"device {name} is not there; LiteRT has {', '.join(found)}")
        return found[name]

    def least_work(self, name: str) -> float:
        """Return 0 for the names: a user has named it."""
        return 0 if self.opens(name) else inf


LITERT_DEVICES = LiteRtDevices()
"""The entry point."""
