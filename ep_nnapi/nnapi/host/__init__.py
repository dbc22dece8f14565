"""NNAPI runtime for hosts without Android: devices in Python, kernels in numpy."""

from ep_nnapi.nnapi.host.runtime import HostDevice, HostRuntime, PreparedModel

__all__ = ["HostDevice", "HostRuntime", "PreparedModel"]
