# ruff: noqa: N802 (functions have the NDK's names)
"""Memory objects and their descriptors. Source: NDK ANeuralNetworksMemory*_*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.c_arguments import numbers, require
from ep_nnapi.nnapi.capi.descriptor import Descriptor
from ep_nnapi.nnapi.capi.memory import Direction, FileMemory, Role, copy
from ep_nnapi.nnapi.capi.refusal import Refused, unexpected_null
from ep_nnapi.nnapi.capi.registry import COMPILATIONS, DESCRIPTORS, MEMORIES
from ep_nnapi.nnapi.codes import ResultCode

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


def Memory_createFromFd(size: int, protect: int, fd: int, offset: int, out: CData) -> None:
    """Creates a memory from a mapped file; the descriptor may be closed afterwards."""
    require(out, "memory")
    out[0] = 0
    out[0] = MEMORIES.add(FileMemory.map(size, protect, fd, offset))


def Memory_createFromAHardwareBuffer(buffer: int, out: CData) -> None:
    """Always UNMAPPABLE: hardware buffers exist on Android only."""
    require(out, "memory")
    out[0] = 0
    if buffer == 0:
        raise unexpected_null("ahwb")
    raise Refused(ResultCode.UNMAPPABLE, "this system has no hardware buffers")


def Memory_createFromDesc(desc: int, out: CData) -> None:
    """Creates a device memory for the roles of a descriptor."""
    require(out, "memory")
    out[0] = 0
    out[0] = MEMORIES.add(DESCRIPTORS[desc].allocate())


def Memory_copy(source: int, target: int) -> None:
    """Copies the whole of one memory into another."""
    copy(MEMORIES[source], MEMORIES[target])


def Memory_free(memory: int) -> None:
    """Releases the handle; models and executions that use the memory keep a reference."""
    MEMORIES.remove(memory)


def MemoryDesc_create(out: CData) -> None:
    """Creates an empty descriptor."""
    require(out, "desc")
    out[0] = DESCRIPTORS.add(Descriptor())


def MemoryDesc_free(desc: int) -> None:
    """Releases the handle."""
    DESCRIPTORS.remove(desc)


def MemoryDesc_addInputRole(desc: int, compilation: int, index: int, frequency: float) -> None:
    """Lets the memory be input `index` of the compilation's executions."""
    _add_role(desc, compilation, Direction.INPUT, (index, frequency))


def MemoryDesc_addOutputRole(desc: int, compilation: int, index: int, frequency: float) -> None:
    """Lets the memory be output `index` of the compilation's executions."""
    _add_role(desc, compilation, Direction.OUTPUT, (index, frequency))


def MemoryDesc_setDimensions(desc: int, rank: int, dimensions: CData) -> None:
    """Sets dimensions that the models leave unknown."""
    descriptor = DESCRIPTORS[desc]
    if rank and dimensions == ffi.NULL:
        raise unexpected_null("dimensions")
    descriptor.set_dimensions(numbers(dimensions, rank))


def MemoryDesc_finish(desc: int) -> None:
    """Finishes the descriptor."""
    DESCRIPTORS[desc].finish()


def _add_role(desc: int, compilation: int, direction: Direction, use: tuple[int, float]) -> None:
    descriptor = DESCRIPTORS[desc]
    index, frequency = use
    descriptor.add_role(Role(COMPILATIONS[compilation], direction, index), frequency)
