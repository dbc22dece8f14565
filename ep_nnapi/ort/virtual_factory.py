"""Factories of virtual devices, for libraries registered under a name that ends in `.virtual`.

ONNX Runtime takes at most `DEVICES` devices from one factory, so there are several factories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import Options
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check, key_value_pairs
from ep_nnapi.ort.contract import OpenProvider
from ep_nnapi.ort.factory import CPU, Factory, open_provider
from ep_nnapi.ort.names import VENDOR
from ep_nnapi.provider.virtual_devices import (
    FOLDER_VARIABLE,
    VirtualDevice,
    level_devices,
    profiled_devices,
)

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData

DEVICES = 8
"""Devices of one factory. Source: EpInfo::Create of onnxruntime, the same in 1.25 to 1.32."""
_TYPES = {"CPU": CPU, "GPU": 1}  # Source: OrtHardwareDeviceType.
_NPU = 2
_vendor = ffi.new("char[]", VENDOR.encode())


class VirtualFactory(Factory):
    """Creates execution providers on the host runtime, which takes the place of each device."""

    def __init__(self, open_provider: OpenProvider, offered: Sequence[VirtualDevice]) -> None:
        super().__init__(open_provider)
        self._offered = offered
        self._by_hardware: dict[CData, VirtualDevice] = {}

    def devices(self, hardware: Sequence[CData]) -> list[tuple[CData, Mapping[str, str]]]:
        """Returns the virtual devices: their OrtHardwareDevices live as long as the process."""
        if not self._by_hardware:
            self._by_hardware = {_new_hardware(device): device for device in self._offered}
        return [(handle, _metadata(device)) for handle, device in self._by_hardware.items()]

    def options_on(self, hardware: Sequence[CData], given: Mapping[str, str]) -> dict[str, str]:
        """Returns the options for a session on one virtual device; raises OptionError."""
        return self._one_of(hardware).merged(given)

    def validated_options(self, hardware: Sequence[CData]) -> Options | None:
        """Returns the options of a session on one virtual device; raises OptionError."""
        return self._one_of(hardware).session_options()

    def _one_of(self, hardware: Sequence[CData]) -> VirtualDevice:
        if len(hardware) != 1:
            raise OptionError(
                f"{len(hardware)} virtual devices are selected; select one, by its metadata "
                f"nnapi_device: {', '.join(device.name for device in self._offered)} …"
            )
        return self._by_hardware[hardware[0]]


def _metadata(device: VirtualDevice) -> dict[str, str]:
    return {"nnapi_device": device.name, "nnapi_feature_level": str(device.feature_level)}


def _new_hardware(device: VirtualDevice) -> CData:
    made = ffi.new("OrtHardwareDevice **")
    # Source: kOrtHardwareDevice_MetadataKey_IsVirtual.
    with key_value_pairs({"is_virtual": "1", **_metadata(device)}) as pairs:
        check(lib.new_hardware(_TYPES.get(device.type.name, _NPU), _vendor, pairs, made))
    handle: CData = made[0]
    return handle


def virtual_factories(capacity: int) -> tuple[list[Factory], list[str]]:
    """Returns at most `capacity` factories of all virtual devices, and problems to be logged.

    Raises OptionError if the folder of profiles cannot be read.
    """
    profiled = list(profiled_devices())
    problems = [f"no virtual device: {p}" for p in profiled if isinstance(p, OptionError)]
    found = level_devices() + [d for d in profiled if isinstance(d, VirtualDevice)]
    most = capacity * DEVICES
    if len(found) > most:
        problems.append(
            f"ONNX Runtime takes {most} virtual devices: those after {found[most - 1].name} are "
            f"left out; {FOLDER_VARIABLE} names a folder of fewer profiles"
        )
    starts = range(0, min(len(found), most), DEVICES)
    return [_factory(tuple(found[i : i + DEVICES])) for i in starts], problems


@cache
def _factory(offered: tuple[VirtualDevice, ...]) -> VirtualFactory:
    """Returns the same factory for equal devices: it is never freed."""
    return VirtualFactory(open_provider, offered)
