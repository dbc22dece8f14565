"""Factories of execution providers: their devices, and the provider of each session.

A library registered under a name that ends in `.virtual` offers virtual devices. ONNX Runtime takes
at most `DEVICES` devices from one factory, so there are several factories of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from ep_nnapi.collection import paused_collection
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import parse
from ep_nnapi.ort._native import lib
from ep_nnapi.ort.api import (
    EP_NAME,
    VENDOR,
    api,
    ep_api,
    key_value_pairs,
    provider_options,
    stored,
    text,
)
from ep_nnapi.ort.compute import Cluster
from ep_nnapi.ort.context import ContextData, context_options
from ep_nnapi.ort.ep import Ep
from ep_nnapi.report.report import Notice

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import WeightsTarget
    from ep_nnapi.ort._native import CData
    from ep_nnapi.provider.cluster_record import Listener
    from ep_nnapi.provider.provider import Provider
    from ep_nnapi.provider.virtual_devices import VirtualDevice

OpenProvider: TypeAlias = Callable[[Mapping[str, str]], "Provider | NoNodesProvider"]

CPU = 0  # Source: OrtHardwareDeviceType.

_CHOSEN_BY_POLICY = (
    f"a selection policy has chosen {EP_NAME}, whose device is a reference and slower than the CPU "
    "provider: it leaves all nodes to that; ep_nnapi.append_execution_provider or providers= "
    "selects it"
)


def open_provider(entries: Mapping[str, str]) -> Provider:
    """Returns the provider of a session with these options."""
    with paused_collection():  # the whole package, which is not needed before a session exists
        from ep_nnapi.provider.provider import open_provider

    return open_provider(entries)


class Factory:
    """Creates the execution provider of each session; `open_provider` may be replaced."""

    def __init__(self, open_provider: OpenProvider) -> None:
        self.open_provider = open_provider

    def devices(self, hardware: Sequence[CData]) -> list[tuple[CData, Mapping[str, str]]]:
        """Returns the OrtHardwareDevices that sessions can run on, with metadata.

        hardware   those that ONNX Runtime has found
        """
        return [(device, {}) for device in hardware if api().HardwareDevice_Type(device) == CPU]

    def create_ep(
        self,
        hardware: Sequence[CData],
        entries: Mapping[str, str],
        by_policy: bool,
        logger: int,
        data: ContextData | None = None,
    ) -> Ep:
        """Returns the execution provider for a session with these configuration entries.

        logger   the session's OrtLogger
        data     the application's callbacks for the weights of compiled models

        ONNX Runtime's selection policies prefer the CPU device of any plugin to its own CPU
        provider. If a policy selected this provider (`by_policy`) and none of its options is set,
        all nodes are left to the CPU provider.
        """
        own = provider_options(entries)
        if by_policy and not own:
            return Ep(NoNodesProvider(), logger)
        own = self.options_on(hardware, own)
        context = context_options(entries)
        if context is not None:
            own["dynamic_shapes"] = "off"  # nodes with symbolic shapes stay ONNX nodes
        own = {**_spinning(entries), **own}
        provider = self.open_provider(own)
        if context is not None:
            provider.plan_for_files()
        provider.begin(text(lib.running_version()))
        return Ep(provider, logger, context, data)

    def options_on(self, hardware: Sequence[CData], given: Mapping[str, str]) -> dict[str, str]:
        """Returns the provider's options for a session on these hardware devices."""
        del hardware
        return dict(given)

    def validate(self, hardware: Sequence[CData], info: str) -> int:
        """Returns the OrtCompiledModelCompatibility of these devices with a compiled model."""
        from ep_nnapi.provider.load_epcontext import validate  # as in open_provider

        return validate(info, parse(self.options_on(hardware, {})))


def _spinning(entries: Mapping[str, str]) -> dict[str, str]:
    """Returns the option with which a device's threads spin no more than the session's."""
    if entries.get("session.intra_op.allow_spinning") == "0":
        return {"spinning": "never"}
    stops = entries.get("session.force_spinning_stop") == "1"
    return {"spinning": "runs"} if stops else {}


class NoNodesProvider:
    """A provider that takes no nodes, for sessions that did not select it explicitly."""

    error: Exception | None = None

    def __init__(self) -> None:
        self.listeners: list[Listener] = []  # there are no events

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        """Returns no clusters."""
        return ()

    def notice(self) -> Notice:
        """Returns the reason why no node is taken."""
        return Notice(_CHOSEN_BY_POLICY, warning=True)

    @property
    def compatibility_info(self) -> str:
        """The empty string: nothing is compiled."""
        return ""

    def contexts(
        self, clusters: Sequence[Cluster], target: WeightsTarget
    ) -> Iterator[tuple[bytes, tuple[str, ...]]]:
        """Yields nothing: there are no clusters."""
        return iter(())

    def _ignore(self, *_given: object) -> None:
        """Does nothing: no node is compiled or runs here."""

    begin = plan_for_files = end = forget = _ignore
    set_dynamic_options = start_run = end_run = read_weights_by = _ignore


DEVICES = 8
"""Devices of one factory. Source: EpInfo::Create of onnxruntime, the same in 1.25 to 1.32."""
_TYPES = {"CPU": CPU, "GPU": 1}  # Source: OrtHardwareDeviceType.
_NPU = 2


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
    # Source: kOrtHardwareDevice_MetadataKey_IsVirtual.
    with key_value_pairs({"is_virtual": "1", **_metadata(device)}) as pairs:
        kind = _TYPES.get(device.type.name, _NPU)
        given = kind, 0, 0, VENDOR.encode(), pairs
        made: CData = stored("OrtHardwareDevice *", ep_api().CreateHardwareDevice, *given)
    return made


def virtual_factories(capacity: int) -> tuple[list[Factory], list[str]]:
    """Returns at most `capacity` factories of all virtual devices, and problems to be logged.

    Raises OptionError if the folder of profiles cannot be read.
    """
    from ep_nnapi.provider import virtual_devices as virtual  # as in open_provider

    profiled = list(virtual.profiled_devices())
    problems = [f"no virtual device: {p}" for p in profiled if isinstance(p, OptionError)]
    found = virtual.level_devices()
    found += [d for d in profiled if isinstance(d, virtual.VirtualDevice)]
    most = capacity * DEVICES
    if len(found) > most:
        problems.append(
            f"ONNX Runtime takes {most} virtual devices: those after {found[most - 1].name} are "
            f"left out; {virtual.FOLDER_VARIABLE} names a folder of fewer profiles"
        )
    starts = range(0, min(len(found), most), DEVICES)
    return [_factory(tuple(found[i : i + DEVICES])) for i in starts], problems


@cache
def _factory(offered: tuple[VirtualDevice, ...]) -> VirtualFactory:
    """Returns the same factory for equal devices: it is never freed."""
    return VirtualFactory(open_provider, offered)
