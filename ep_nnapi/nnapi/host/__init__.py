"""NNAPI runtime for hosts without Android: devices in Python, kernels in numpy."""

from ep_nnapi.nnapi.host.device import HostDevice, PreparedModel
from ep_nnapi.nnapi.host.runtime import HostRuntime

__all__ = ["HostDevice", "HostRuntime", "PreparedModel"]
