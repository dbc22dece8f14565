"""Python callbacks of the plugin, which ONNX Runtime calls through callbacks.c.

A callback never raises: it returns OK, or FAILED with an OrtStatus that has the message. If Python
fails before the callback's code runs, cffi returns FAILED and the C code creates the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.interrupts import hold
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check, config_entries, status_of, text
from ep_nnapi.ort.callbacks import ESCAPED, FAILED, OK, live_objects, new_struct, with_status
from ep_nnapi.ort.compute import FusedNode
from ep_nnapi.ort.context import context_options
from ep_nnapi.ort.contract import Cluster, OpenProvider, Provider
from ep_nnapi.ort.ep import Ep
from ep_nnapi.ort.names import EP_NAME, VENDOR, provider_options, semantic_version, with_prefix
from ep_nnapi.ort.profiler import Profiler
from ep_nnapi.provider.run_events import Listener
from ep_nnapi.report import Notice

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Call, CData

_CPU = 0  # Source: OrtHardwareDeviceType.

_CHOSEN_BY_POLICY = (
    f"a selection policy has chosen {EP_NAME}, whose device is a reference and slower than the CPU "
    "provider: it leaves all nodes to that; ep_nnapi.append_execution_provider or providers= "
    "selects it"
)


def _open_provider(entries: Mapping[str, str]) -> Provider:
    from ep_nnapi.provider.provider import (
        open_provider,  # imports the whole package, which is not needed before a session exists
    )

    return open_provider(entries)


class Factory:
    """Creates the execution provider of each session; `open_provider` may be replaced."""

    def __init__(self, open_provider: OpenProvider) -> None:
        self.open_provider = open_provider

    def create_ep(self, options: CData, by_policy: bool, logger: int) -> Ep:
        """Returns the execution provider for a session with these OrtSessionOptions and OrtLogger.

        ONNX Runtime's selection policies prefer the CPU device of any plugin to its own CPU
        provider. If a policy selected this provider (`by_policy`) and none of its options is set,
        all nodes are left to the CPU provider.
        """
        entries = config_entries(options)
        own = provider_options(entries)
        if by_policy and not own:
            return Ep(NoNodesProvider(), logger)
        context = context_options(entries)
        if context is not None:
            own["dynamic_shapes"] = "off"  # nodes with symbolic shapes stay ONNX nodes
        return Ep(self.open_provider(own), logger, context)


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

    def contexts(self, clusters: Sequence[Cluster], model: Path | None) -> Iterator[bytes]:
        """Yields nothing: there are no clusters."""
        return iter(())


@cache
def _name_run_options() -> tuple[CData, list[CData]]:
    """Has runs look for every option of the provider: those of a session are refused, not ignored.

    Returns what C refers to.
    """
    from ep_nnapi.options import OPTIONS  # as in _open_provider

    names = [ffi.new("char[]", with_prefix(o.name).encode()) for o in OPTIONS]
    array = ffi.new("const char *[]", names)
    lib.name_run_options(array, len(names))
    return array, names


factory = Factory(_open_provider)
_strings = [ffi.new("char[]", s.encode()) for s in (EP_NAME, VENDOR, semantic_version())]


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_create_factory(out: CData, status: CData) -> None:
    """Returns the only factory of this library, which is never freed."""
    out[0] = new_struct(lib.new_factory, factory, *_strings)


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_supported_devices(
    this: CData,
    hardware: CData,
    hardware_count: int,
    devices: CData,
    capacity: int,
    count: CData,
    status: CData,
) -> None:
    """Registers the provider for the CPU hardware device."""
    for i in range(hardware_count):
        if count[0] < capacity and lib.hardware_type(hardware[i]) == _CPU:
            check(lib.add_device(this, hardware[i], devices + count[0]))
            count[0] += 1


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_create_ep(
    this: CData, options: CData, by_policy: int, logger: int, out: CData, status: CData
) -> None:
    """Creates the execution provider of one session."""
    _name_run_options()
    this_factory: Factory = ffi.from_handle(this)
    ep = this_factory.create_ep(options, bool(by_policy), logger)
    out[0] = new_struct(lib.new_ep, ep, _strings[0])


@ffi.def_extern(onerror=ESCAPED)
def py_release_ep(this: CData, ep: CData, struct: CData) -> None:
    """Releases the execution provider of a session."""
    del live_objects[struct]
    lib.free_ep(struct)


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_get_capability(this: CData, graph: int, support: CData, status: CData) -> None:
    """Claims the nodes of a graph that the provider takes."""
    ep: Ep = ffi.from_handle(this)
    ep.get_capability(graph, support)


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_session_initialized(this: CData, status: CData) -> None:
    """Logs the session's line; all graphs are planned by now."""
    ep: Ep = ffi.from_handle(this)
    ep.log_notice()


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_compile(
    this: CData,
    graphs: CData,
    fused: CData,
    count: int,
    out: CData,
    context_nodes: CData,
    status: CData,
) -> None:
    """Creates a FusedNode for each cluster; ORT releases those created before a failure."""
    ep: Ep = ffi.from_handle(this)
    for i in range(count):
        node = ep.compile(graphs[i], fused[i])
        out[i] = new_struct(lib.new_compute, node, node.input_count, node.output_count)
    for i, context_node in enumerate(ep.context_nodes(ffi.unpack(fused, count))):
        context_nodes[i] = context_node


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_set_dynamic_options(
    this: CData, keys: CData, values: CData, count: int, status: CData
) -> None:
    """Changes options of a session that exists."""
    ep: Ep = ffi.from_handle(this)
    ep.set_dynamic_options({text(keys[i]): text(values[i]) for i in range(count)})


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_start_run(this: CData, keys: CData, values: CData, count: int, status: CData) -> None:
    """Sets options for the run that begins on this thread."""
    ep: Ep = ffi.from_handle(this)
    ep.start_run({text(keys[i]): text(values[i]) for i in range(count)})


@ffi.def_extern(onerror=ESCAPED)
def py_end_run(this: CData) -> None:
    """Ends what py_start_run began."""
    ep: Ep = ffi.from_handle(this)
    ep.end_run()


@ffi.def_extern(onerror=ESCAPED)
def py_compatibility_info(this: CData) -> CData:
    """Returns the string that is stored with a compiled model; NULL if that fails."""
    ep: Ep = ffi.from_handle(this)
    return ep.compatibility_info()


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_validate_compatibility(this: CData, info: CData, answer: CData, status: CData) -> None:
    """Answers if a model that was compiled under these conditions runs here."""
    from ep_nnapi.provider.compatibility import validate  # as in _open_provider

    answer[0] = validate(text(info))


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_create_profiler(this: CData, out: CData, status: CData) -> None:
    """Creates what collects events while ONNX Runtime records a profile of a session or a run."""
    ep: Ep = ffi.from_handle(this)
    out[0] = new_struct(lib.new_profiler, ep.profiler())


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_start_profiling(this: CData, began_ns: int, status: CData) -> None:
    """Begins to collect events."""
    profiler: Profiler = ffi.from_handle(this)
    profiler.start(began_ns)


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
@with_status
def py_end_profiling(this: CData, events: int, status: CData) -> None:
    """Adds the events that were collected to an OrtProfilingEventsContainer."""
    profiler: Profiler = ffi.from_handle(this)
    profiler.end(events)


@ffi.def_extern(onerror=ESCAPED)
def py_release_profiler(this: CData, struct: CData) -> None:
    """Releases a profiler."""
    del live_objects[struct]
    lib.free_profiler(struct)


@ffi.def_extern(onerror=ESCAPED)
def py_release_computes(this: CData, structs: CData, count: int) -> None:
    """Releases fused nodes."""
    for i in range(count):
        if structs[i]:
            del live_objects[structs[i]]
            lib.free_compute(structs[i])


@ffi.def_extern(error=FAILED, onerror=ESCAPED)
def py_compute(this: CData, call: Call) -> int:
    """Runs one fused node; without the decorator `with_status`, as it is the hot path."""
    node: FusedNode = ffi.from_handle(this)
    try:
        node.compute(call)
    except BaseException as error:
        call.status = status_of(error)
        hold(error, lib.interrupt_later)
        return FAILED
    return OK


def connect() -> int:
    """Returns the address of the table of functions that the plugin library calls."""
    return lib.entry_points()
