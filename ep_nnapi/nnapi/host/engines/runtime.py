"""The host runtime with all devices of this package, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.engines.device import CpuDevice
from ep_nnapi.nnapi.host.engines.plugin import plugin_device
from ep_nnapi.nnapi.host.reference import ReferenceDevice


def host_runtime(feature_level: int = 8, plugins: Sequence[str] = ()) -> HostRuntime:
    """Return a runtime with the devices nnapi-reference and host-cpu, then `plugins`.

    Sessions prefer host-cpu (provider/devices.py), C programs for large models
    (capi/default_devices.py).

    Raises OptionError for a feature level that is not 1 to 8, and as `plugin_device`.
    """
    others = map(plugin_device, plugins)
    return HostRuntime((ReferenceDevice(), CpuDevice(), *others), feature_level)
