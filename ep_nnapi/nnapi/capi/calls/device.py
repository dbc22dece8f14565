# ruff: noqa: N802 (functions have the NDK's names)
"""Devices and runtime queries. Source: NDK ANeuralNetworks_*, ANeuralNetworksDevice_*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi.c_arguments import require
from ep_nnapi.nnapi.capi.library_state import CDevice, devices, feature_level
from ep_nnapi.nnapi.capi.refusal import bad_data
from ep_nnapi.nnapi.codes import feature_level_code
from ep_nnapi.nnapi.host.run import DEFAULT_LOOP_TIMEOUT_NS, MAXIMUM_LOOP_TIMEOUT_NS

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


def getDeviceCount(count: CData) -> None:
    """Gets the number of devices."""
    require(count, "numDevices")
    count[0] = len(devices()[1])


def getDevice(index: int, out: CData) -> None:
    """Gets the device at an index in the runtime's order."""
    require(out, "device")
    handles = devices()[1]
    if index >= len(handles):
        raise bad_data(f"device {index} of {len(handles)}")
    out[0] = handles[index]


def getDefaultLoopTimeout() -> int:
    """Returns the default time limit of a WHILE loop, in nanoseconds."""
    return DEFAULT_LOOP_TIMEOUT_NS


def getMaximumLoopTimeout() -> int:
    """Returns the greatest time limit of a WHILE loop, in nanoseconds."""
    return MAXIMUM_LOOP_TIMEOUT_NS


def getRuntimeFeatureLevel() -> int:
    """Returns the code of the feature level that models are validated against."""
    return feature_level_code(feature_level())


def Device_getName(device: int, name: CData) -> None:
    """Gets the device's unique name."""
    shown = _device_of(device)
    require(name, "name")
    name[0] = shown.name


def Device_getVersion(device: int, version: CData) -> None:
    """Gets the device's version, free text."""
    shown = _device_of(device)
    require(version, "version")
    version[0] = shown.version


def Device_getType(device: int, out: CData) -> None:
    """Gets the device's DeviceTypeCode."""
    shown = _device_of(device)
    require(out, "type")
    out[0] = shown.device.type


def Device_getFeatureLevel(device: int, out: CData) -> None:
    """Gets the code of the device's feature level."""
    shown = _device_of(device)
    require(out, "featureLevel")
    out[0] = feature_level_code(shown.device.feature_level)


def Device_getExtensionSupport(device: int, name: CData, supported: CData) -> None:
    """Always false: no device here has vendor extensions."""
    _device_of(device)
    require(name, "extensionName")
    require(supported, "isExtensionSupported")
    supported[0] = False


def Device_wait(device: int) -> None:
    """Returns at once: host devices are always ready."""
    _device_of(device)


def _device_of(device: int) -> CDevice:
    return devices()[0][device]
