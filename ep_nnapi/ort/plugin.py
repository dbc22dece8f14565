"""The callbacks that ONNX Runtime reaches through callbacks.c, and what keeps their objects alive.

A callback never raises: it answers OK, or FAILED with an OrtStatus that carries the message. Should
Python not even get to run it, cffi answers FAILED and the C side makes the status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.interrupts import escaped, hold
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check, config, status_of
from ep_nnapi.ort.compute import FusedNode
from ep_nnapi.ort.contract import Cluster, OpenProvider, Provider
from ep_nnapi.ort.ep import Ep
from ep_nnapi.ort.names import EP_NAME, VENDOR, WRITES_CONTEXT, own_entries, semantic_version

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Call, CData

logger = logging.getLogger(__name__)
_P = ParamSpec("_P")
_OK, _FAILED = 0, 1
_CPU = 0  # Source: OrtHardwareDeviceType.
_ESCAPED = escaped(lib.interrupt_later)

_CHOSEN_BY_POLICY = (
    f"a selection policy has chosen {EP_NAME}, whose device is a reference and slower than the CPU "
    "provider: it leaves all nodes to that; ep_nnapi.append_execution_provider or providers= "
    "selects it"
)

# The Python objects behind the C structs, by the struct: C holds only a handle.
alive: dict[CData, tuple[CData, object]] = {}


def _open_provider(entries: Mapping[str, str]) -> Provider:
    from ep_nnapi.provider.provider import (
        open_provider,  # needs all of the package; ORT needs it late
    )

    return open_provider(entries)


class Factory:
    """Makes the execution provider of each session; `open_provider` may be replaced."""

    def __init__(self, open_provider: OpenProvider) -> None:
        self.open_provider = open_provider

    def create_ep(self, options: CData, by_policy: bool) -> Ep:
        """The provider for a session with these OrtSessionOptions.

        ONNX Runtime's selection policies prefer any CPU device to its own: where one of them has
        chosen (`by_policy`), and nobody has set an option, every node is left to the CPU provider.
        """
        entries = config(options)
        own = own_entries(entries)
        if by_policy and not own:
            logger.warning("%s", _CHOSEN_BY_POLICY)
            return Ep(Bystander())
        return Ep(self.open_provider(own), entries.get(WRITES_CONTEXT) == "1")


class Bystander:
    """The provider of a session that nobody selected it for: it takes no nodes."""

    error: Exception | None = None

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        """No clusters."""
        return ()


factory = Factory(_open_provider)
_strings = [ffi.new("char[]", s.encode()) for s in (EP_NAME, VENDOR, semantic_version())]


def _twin(make: Callable[..., CData], itself: object, *arguments: object) -> CData:
    """A C struct that stands for `itself` until `_release`."""
    handle = ffi.new_handle(itself)
    struct = make(handle, *arguments)
    if not struct:
        raise MemoryError
    alive[struct] = (handle, itself)
    return struct


def _status(function: Callable[_P, None]) -> Callable[_P, int]:
    """`function` as a callback: its last argument is where an OrtStatus goes."""

    @wraps(function)
    def callback(*args: _P.args, **kwargs: _P.kwargs) -> int:
        try:
            function(*args, **kwargs)
        except BaseException as error:
            args[-1][0] = status_of(error)  # type: ignore[index]
            hold(error, lib.interrupt_later)
            return _FAILED
        return _OK

    return callback


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
@_status
def py_create_factory(out: CData, status: CData) -> None:
    """The one factory of this library, which is never freed."""
    out[0] = _twin(lib.new_factory, factory, *_strings)


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
@_status
def py_supported_devices(
    this: CData,
    hardware: CData,
    hardware_count: int,
    devices: CData,
    capacity: int,
    count: CData,
    status: CData,
) -> None:
    """Attaches the provider to the CPU."""
    for i in range(hardware_count):
        if count[0] < capacity and lib.hardware_type(hardware[i]) == _CPU:
            check(lib.add_device(this, hardware[i], devices + count[0]))
            count[0] += 1


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
@_status
def py_create_ep(this: CData, options: CData, by_policy: int, out: CData, status: CData) -> None:
    """The provider of one session."""
    maker: Factory = ffi.from_handle(this)
    out[0] = _twin(lib.new_ep, maker.create_ep(options, bool(by_policy)), _strings[0])


@ffi.def_extern(onerror=_ESCAPED)
def py_release_ep(this: CData, ep: CData, struct: CData) -> None:
    """The session is gone."""
    del alive[struct]
    lib.free_ep(struct)


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
@_status
def py_get_capability(this: CData, graph: int, support: CData, status: CData) -> None:
    """Which nodes of a graph the provider takes."""
    ep: Ep = ffi.from_handle(this)
    ep.claim(graph, support)


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
@_status
def py_compile(
    this: CData, graphs: CData, fused: CData, count: int, out: CData, status: CData
) -> None:
    """A FusedNode for each cluster; those made before a failure are released by ORT."""
    ep: Ep = ffi.from_handle(this)
    for i in range(count):
        node = ep.compile(graphs[i], fused[i])
        out[i] = _twin(lib.new_compute, node, node.input_count, node.output_count)


@ffi.def_extern(onerror=_ESCAPED)
def py_release_computes(this: CData, structs: CData, count: int) -> None:
    """The fused nodes are gone."""
    for i in range(count):
        if structs[i]:
            del alive[structs[i]]
            lib.free_compute(structs[i])


@ffi.def_extern(error=_FAILED, onerror=_ESCAPED)
def py_compute(this: CData, call: Call) -> int:
    """One run of one fused node: the hot path, so without the wrapper."""
    node: FusedNode = ffi.from_handle(this)
    try:
        node.compute(call)
    except BaseException as error:
        call.status = status_of(error)
        hold(error, lib.interrupt_later)
        return _FAILED
    return _OK


lib.py_ready = 1
