"""An NNAPI runtime for hosts without one: devices in Python, kernels on numpy."""

from ep_nnapi.nnapi.host.device import HostDevice, PreparedModel
from ep_nnapi.nnapi.host.runtime import HostRuntime

__all__ = ["HostDevice", "HostRuntime", "PreparedModel"]
