"""The factory of execution providers: its devices, and the provider of each session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ep_nnapi.collection import paused_collection
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.array import Array
from ep_nnapi.options.table import Options
from ep_nnapi.ort._native import lib
from ep_nnapi.ort.api import text
from ep_nnapi.ort.context import context_options
from ep_nnapi.ort.context_data import ContextData
from ep_nnapi.ort.contract import Cluster, OpenProvider, Provider
from ep_nnapi.ort.ep import Ep
from ep_nnapi.ort.names import EP_NAME, provider_options
from ep_nnapi.report.report import Notice

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import WeightsTarget
    from ep_nnapi.ort._native import CData
    from ep_nnapi.provider.run_events import Listener

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
        return [(device, {}) for device in hardware if lib.hardware_type(device) == CPU]

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
        provider.begin(text(lib.running_version()))
        return Ep(provider, logger, context, data)

    def options_on(self, hardware: Sequence[CData], given: Mapping[str, str]) -> dict[str, str]:
        """Returns the provider's options for a session on these hardware devices."""
        del hardware
        return dict(given)

    def validate(self, hardware: Sequence[CData], info: str) -> int:
        """Returns the OrtCompiledModelCompatibility of these devices with a compiled model."""
        from ep_nnapi.provider.compatibility import validate  # as in open_provider

        return validate(info, self.validated_options(hardware))

    def validated_options(self, hardware: Sequence[CData]) -> Options | None:
        """Returns the options of a session on these devices; None for the default ones."""
        del hardware
        return None


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

    def begin(self, running: str) -> None:
        """Does nothing: there are no clusters to tell of."""

    def end(self) -> None:
        """Does nothing, as `begin`."""

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        """Returns no clusters."""
        return ()

    def notice(self) -> Notice:
        """Returns the reason why no node is taken."""
        return Notice(_CHOSEN_BY_POLICY, warning=True)

    def set_dynamic_options(self, given: Mapping[str, str]) -> None:
        """Does nothing: no node runs here."""

    def start_run(self, given: Mapping[str, str]) -> None:
        """Does nothing, as `set_dynamic_options`."""

    def end_run(self) -> None:
        """Does nothing, as `start_run`."""

    @property
    def compatibility_info(self) -> str:
        """The empty string: nothing is compiled."""
        return ""

    def contexts(self, clusters: Sequence[Cluster], target: WeightsTarget) -> Iterator[bytes]:
        """Yields nothing: there are no clusters."""
        return iter(())

    def read_weights_by(self, read: Callable[[str], Array]) -> None:
        """Does nothing: EPContext nodes are not taken."""
