"""Python callbacks of the plugin, which ONNX Runtime calls through callbacks.c.

A callback never raises: it returns NULL, or an OrtStatus that has the message. If Python fails
before the callback's code runs, cffi returns NOT_RUN and the C code creates the status.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from ep_nnapi.nnapi.interrupts import escaped, hold
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import (
    ALLOW_VIRTUAL,
    EP_NAME,
    VENDOR,
    check,
    config_entries,
    environment_entries,
    ep_api,
    is_virtual,
    key_value_pairs,
    log,
    semantic_version,
    status_of,
    strings,
    text,
    with_prefix,
)
from ep_nnapi.ort.compute import FusedNode
from ep_nnapi.ort.context import ContextData
from ep_nnapi.ort.ep import Ep
from ep_nnapi.ort.factory import Factory, open_provider, virtual_factories
from ep_nnapi.ort.inner_session import open_inner_session
from ep_nnapi.ort.profiler import Profiler
from ep_nnapi.sessions.device_session import OPENERS

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Call, CData


NOT_RUN = ffi.cast("OrtStatus *", 1)
ESCAPED = escaped(lib.interrupt_later)

# Python objects by their C struct: C holds only a handle, so this keeps them alive.
live_objects: dict[CData, tuple[CData, object]] = {}


def new_struct(make: Callable[..., CData], itself: object, *arguments: object) -> CData:
    """Returns a new C struct with a handle to `itself`, kept alive until it is released."""
    handle = ffi.new_handle(itself)
    struct = make(handle, *arguments)
    if not struct:
        raise MemoryError
    live_objects[struct] = (handle, itself)
    return struct


def release_of(
    free: Callable[[CData], None], close: Callable[[Any], None] | None = None
) -> Callable[[CData], None]:
    """Returns the function that drops the object of a C struct and frees the struct by `free`.

    close   called with the object before, unless Python shuts down

    It refers to no global name: Python, as it shuts down, sets those of a module to None before
    the last sessions are released.
    """
    objects, shuts_down = live_objects, sys.is_finalizing

    def release(struct: CData) -> None:
        try:
            if close is not None and not shuts_down():
                close(objects[struct][1])
        finally:
            del objects[struct]
            free(struct)

    return release


def with_status(function: Callable[..., None]) -> Callable[..., CData]:
    """Decorator for callbacks of the plugin: exceptions become the OrtStatus that they return."""

    @wraps(function)
    def callback(*arguments: object) -> CData:
        try:
            function(*arguments)
        except BaseException as error:
            status = status_of(error)
            hold(error, lib.interrupt_later)
            _drop_tracebacks(error)
            return status
        return ffi.NULL

    return ffi.def_extern(error=NOT_RUN, onerror=ESCAPED)(callback)


def of_object(function: Callable[..., None]) -> Callable[..., CData]:
    """The same for those of an object, whose handle C gives first."""

    @wraps(function)
    def callback(handle: CData, *arguments: object) -> None:
        function(ffi.from_handle(handle), *arguments)

    return with_status(callback)


def _drop_tracebacks(error: BaseException) -> None:
    """Removes the tracebacks of an exception and of those that led to it.

    A provider may keep the exception. Frames refer to their callers, among them the one that
    creates the session; through C, the session keeps the provider: it would never be released.
    """
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        found = chain.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        found.__traceback__ = None
        chain += found.__cause__, found.__context__


@cache
def _name_run_options() -> tuple[CData, list[CData]]:
    """Has runs look for every option of the provider: those of a session are refused, not ignored.

    Returns what C refers to.
    """
    from ep_nnapi.options.table import OPTIONS  # not needed before a session exists

    array, names = strings(with_prefix(o.name) for o in OPTIONS)
    lib.name_run_options(array, len(names))
    return array, names


OPENERS.append(open_inner_session)
factory = Factory(open_provider)
_virtual_names: set[str] = set()
"""Names that end in .virtual, under which this library has been registered."""
_strings = [ffi.new("char[]", s.encode()) for s in (EP_NAME, VENDOR, semantic_version())]


@with_status
def py_create_factories(
    registered_name: CData, logger: int, out: CData, capacity: int, count: CData
) -> None:
    """Returns the factory of this library, or those of virtual devices; none is ever freed.

    A host that allows virtual devices in its environment gets both. A name that ends in .virtual
    sets that entry too, for all libraries: after one, only such names offer virtual devices.
    """
    name = text(registered_name)
    chosen: list[Factory] = [] if is_virtual(name) else [factory]
    allowed = environment_entries().get(ALLOW_VIRTUAL) == "1"
    if is_virtual(name) or (allowed and not _virtual_names):
        if is_virtual(name):
            _virtual_names.add(name)
        factories, problems = virtual_factories(capacity - len(chosen))
        chosen += factories
        for problem in problems:
            log(logger, problem, warning=True)
    for i, each in enumerate(chosen):
        out[i] = _struct_of(each)
    count[0] = len(chosen)


@cache
def _struct_of(this: Factory) -> CData:
    return new_struct(lib.new_factory, this, *_strings)


def _listed(pointers: CData, count: int) -> list[CData]:
    return [pointers[i] for i in range(count)]


@of_object
def py_supported_devices(
    this: Factory,
    struct: CData,
    hardware: CData,
    hardware_count: int,
    devices: CData,
    capacity: int,
    count: CData,
) -> None:
    """Registers the provider for hardware devices."""
    found = this.devices(_listed(hardware, hardware_count))
    for device, metadata in found[:capacity]:
        with key_value_pairs(metadata) as pairs:
            own = ffi.cast("OrtEpFactory *", struct)
            check(ep_api().CreateEpDevice(own, device, pairs, ffi.NULL, devices + count[0]))
        count[0] += 1


@of_object
def py_create_ep(
    this: Factory,
    hardware: CData,
    hardware_count: int,
    options: CData,
    by_policy: int,
    logger: int,
    out: CData,
) -> None:
    """Creates the execution provider of one session."""
    _name_run_options()
    devices = _listed(hardware, hardware_count)
    entries, data = config_entries(options), ContextData(options)
    ep = this.create_ep(devices, entries, bool(by_policy), logger, data)
    out[0] = new_struct(lib.new_ep, ep, _strings[0])


@of_object
def py_get_capability(ep: Ep, graph: int, support: CData) -> None:
    """Claims the nodes of a graph that the provider takes."""
    ep.get_capability(graph, support)


@of_object
def py_session_initialized(ep: Ep) -> None:
    """Logs the session's line; all graphs are planned by now."""
    ep.log_notice()


@of_object
def py_compile(
    ep: Ep, graphs: CData, fused: CData, count: int, out: CData, context_nodes: CData
) -> None:
    """Creates a FusedNode for each cluster; ORT releases those created before a failure."""
    for i in range(count):
        node = ep.compile(graphs[i], fused[i])
        out[i] = new_struct(lib.new_compute, node, node.input_count, node.output_count)
        if node.direct is not None:
            node.direct.attach(out[i])
            node.direct.offer()
    for i, context_node in enumerate(ep.context_nodes(ffi.unpack(fused, count))):
        context_nodes[i] = context_node


@of_object
def py_set_dynamic_options(ep: Ep, keys: CData, values: CData, count: int) -> None:
    """Changes options of a session that exists."""
    ep.set_dynamic_options({text(keys[i]): text(values[i]) for i in range(count)})


@of_object
def py_start_run(ep: Ep, keys: CData, values: CData, count: int) -> None:
    """Sets options for the run that begins on this thread."""
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


@of_object
def py_validate_compatibility(
    this_factory: Factory, hardware: CData, count: int, info: CData, answer: CData
) -> None:
    """Answers if a model that was compiled under these conditions runs here."""
    answer[0] = this_factory.validate(_listed(hardware, count), text(info))


@of_object
def py_create_profiler(ep: Ep, out: CData) -> None:
    """Creates what collects events while ONNX Runtime records a profile of a session or a run."""
    out[0] = new_struct(lib.new_profiler, ep.profiler())


@of_object
def py_start_profiling(profiler: Profiler, began_ns: int) -> None:
    """Begins to collect events."""
    profiler.start(began_ns)


@of_object
def py_end_profiling(profiler: Profiler, events: int) -> None:
    """Adds the events that were collected to an OrtProfilingEventsContainer."""
    profiler.end(events)


def _define_releases() -> None:
    """Defines the callbacks that release structs, with what they need as their own variables."""
    release_ep, release_profiler = release_of(lib.free_ep, Ep.close), release_of(lib.free_profiler)
    release_compute = release_of(lib.free_compute)

    @ffi.def_extern(onerror=ESCAPED)
    def py_release_ep(this: CData, ep: CData, struct: CData) -> None:
        release_ep(struct)

    @ffi.def_extern(onerror=ESCAPED)
    def py_release_profiler(this: CData, struct: CData) -> None:
        release_profiler(struct)

    @ffi.def_extern(onerror=ESCAPED)
    def py_release_computes(this: CData, structs: CData, count: int) -> None:
        for i in range(count):
            if structs[i]:
                release_compute(structs[i])


_define_releases()


@ffi.def_extern(error=NOT_RUN, onerror=ESCAPED)
def py_compute(this: CData, call: Call) -> CData:
    """Runs one fused node; without the decorator `with_status`, as it is the hot path."""
    node: FusedNode = ffi.from_handle(this)
    try:
        node.compute(call)
    except BaseException as error:
        status = status_of(error)
        hold(error, lib.interrupt_later)
        return status
    return ffi.NULL


def connect() -> int:
    """Returns the address of the table of functions that the plugin library calls."""
    return lib.entry_points()
