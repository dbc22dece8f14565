# ruff: noqa: N802 (functions have the NDK's names)
"""Memory objects: mapped files, and device memory that only its declared roles may use.

Source: NDK ANeuralNetworksMemory*_*; checks run in the same order as Android's.
"""

from __future__ import annotations

import mmap
import os
import stat
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.capi.c_arguments import bytes_of, numbers, require
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder, Direction
from ep_nnapi.nnapi.capi.refusal import (
    Handles,
    Refused,
    bad_data,
    bad_state,
    op_failed,
    unexpected_null,
)
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Operand

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


Dimensions: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """Input or output `index` of the executions of a compilation."""

    compilation: CompilationBuilder
    direction: Direction
    index: int


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """Location of a value in a memory, and its dimensions (None: not given)."""

    offset: int
    length: int
    dimensions: Dimensions | None = None


class Memory(ABC):
    """The object of ANeuralNetworksMemory_*, its methods; each of them may raise Refused."""

    @staticmethod
    def createFromFd(size: int, protect: int, fd: int, offset: int) -> Memory:
        """Creates a memory from a mapped file; the descriptor may be closed afterwards."""
        readable = protect & (mmap.PROT_READ | mmap.PROT_WRITE)
        if size == 0 or fd < 0 or not readable:
            raise bad_data(f"{size} bytes of descriptor {fd} with protection {protect}")
        begin = offset % mmap.ALLOCATIONGRANULARITY
        try:
            known = os.fstat(fd)
            if stat.S_ISREG(known.st_mode) and offset + size > known.st_size:
                raise bad_data(f"a file of {known.st_size} bytes has none up to {offset + size}")
            mapped = mmap.mmap(
                fd, begin + size, mmap.MAP_SHARED, readable | mmap.PROT_READ, offset=offset - begin
            )
        except (OSError, OverflowError, ValueError) as error:
            raise Refused(ResultCode.UNMAPPABLE, f"cannot be mapped: {error}") from error
        return FileMemory(np.frombuffer(mapped, np.uint8)[begin:])

    @staticmethod
    def createFromAHardwareBuffer(buffer: int) -> Memory:
        """Always UNMAPPABLE: hardware buffers exist on Android only."""
        if buffer == 0:
            raise unexpected_null("ahwb")
        raise Refused(ResultCode.UNMAPPABLE, "this system has no hardware buffers")

    @staticmethod
    def createFromDesc(desc: Descriptor) -> Memory:
        """Creates a device memory for the roles of a descriptor."""
        if not desc.finished or desc.operand is None:
            raise bad_state("the descriptor is not finished")
        return DeviceMemory(frozenset(desc.roles), desc.operand, desc.dimensions)

    def copy(self, target: Memory) -> None:
        """Copies the whole of one memory into another."""
        if self is not target:
            target._write(self)

    @abstractmethod
    def bytes(self, offset: int, length: int) -> Array:
        """Returns the bytes of a region, as a constant."""

    @abstractmethod
    def storage(self, role: Role, region: MemoryRegion) -> Array | DeviceMemory:
        """Returns where a region is; Refused(BAD_DATA) if an execution may not use it so."""

    @abstractmethod
    def _content(self) -> Array: ...

    @abstractmethod
    def _write(self, source: Memory) -> None: ...


class FileMemory(Memory):
    """A mapping of bytes of a file; later changes of the file are visible."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def _content(self) -> Array:
        return self.array

    def bytes(self, offset: int, length: int) -> Array:
        """Returns the bytes of a region; raises Refused(BAD_DATA) if it is out of bounds."""
        if offset == 0 and length == 0:
            raise bad_data("the length of a region of a file cannot be implied")
        if offset + length > self.array.size:
            raise bad_data(f"bytes {offset} + {length} of {self.array.size}")
        return self.array[offset : offset + length]

    def storage(self, role: Role, region: MemoryRegion) -> Array:
        """Returns the bytes, which must be writable for outputs."""
        found = self.bytes(region.offset, region.length)
        if role.direction is Direction.OUTPUT and not self.array.flags.writeable:
            raise bad_data("the memory is mapped for reading only")
        return found

    def _write(self, source: Memory) -> None:
        content = source._content()
        if content.size != self.array.size:
            raise bad_data(f"{content.size} bytes do not fill {self.array.size}")
        if not self.array.flags.writeable:
            raise bad_data("the target is mapped for reading only")
        self.array[:] = content


@dataclass(slots=True, eq=False)
class DeviceMemory(Memory):
    """A tensor or scalar in device memory: opaque, usable only in its declared roles.

    value   None until an execution or a copy writes it, and after one of these failed
    """

    roles: frozenset[Role]
    operand: Operand
    initial: Dimensions
    value: Array | None = None

    def _content(self) -> Array:
        if self.value is None:
            raise bad_data("the source has no value")
        return self.value.reshape(-1).view(np.uint8)

    def bytes(self, offset: int, length: int) -> Array:
        """Raises Refused(BAD_DATA): the contents are accessible only through the roles."""
        raise bad_data("a device's memory is no model constant")

    def storage(self, role: Role, region: MemoryRegion) -> DeviceMemory:
        """Returns the memory, which must have been described for the role."""
        if role not in self.roles:
            raise bad_data(f"the memory was not described for this {role.direction}")
        if region.offset or region.length:
            raise bad_data("a device's memory is used as a whole: offset and length are 0")
        if region.dimensions is not None:
            combined(region.dimensions, self.initial)
        return self

    def read(self, dimensions: Dimensions) -> Array:
        """Returns the value; raises Refused(OP_FAILED) if unwritten, or of other dimensions."""
        if self.value is None:
            raise op_failed("a device's memory is read before it is written")
        if self.value.shape != dimensions:
            raise op_failed(f"a memory of {self.value.shape} is read as {dimensions}")
        return self.value

    def _write(self, source: Memory) -> None:
        self.value = None  # also after a failed copy
        content, dimensions = source._content(), self.initial
        if isinstance(source, DeviceMemory):
            if not same_type(source.operand, self.operand):
                raise bad_data("source and target differ in type, scale, zero point or channels")
            dimensions = combined(
                source.value.shape if source.value is not None else (), dimensions
            )
        if content.size != bytes_of(self.operand, dimensions):
            wanted = f"{self.operand.type.name} {list(dimensions)}"
            raise bad_data(f"{content.size} bytes are no {wanted}")
        self.value = content.copy().view(self.operand.type.numpy).reshape(dimensions)


def same_type(a: Operand, b: Operand) -> bool:
    """True if two operands differ at most in dimensions and value."""
    return replace(a, dimensions=(), value=None) == replace(b, dimensions=(), value=None)


def combined(a: Dimensions, b: Dimensions) -> Dimensions:
    """Returns two partly known shapes merged; raises Refused(BAD_DATA) if they contradict."""
    if not (a and b):
        return a or b
    if len(a) != len(b) or any(x and y and x != y for x, y in zip(a, b, strict=True)):
        raise bad_data(f"dimensions {list(a)} and {list(b)} contradict each other")
    return tuple(x or y for x, y in zip(a, b, strict=True))


MEMORIES: Handles[Memory] = Handles("Memory", Memory)


@dataclass(slots=True, eq=False)
class Descriptor:
    """The object of ANeuralNetworksMemoryDesc_*, its methods; each of them may raise Refused."""

    roles: list[Role] = field(default_factory=list)
    operand: Operand | None = None
    dimensions: Dimensions = ()
    finished: bool = False

    @staticmethod
    def create() -> Descriptor:
        """Creates an empty descriptor."""
        return Descriptor()

    def addInputRole(self, compilation: CompilationBuilder, index: int, frequency: float) -> None:
        """Lets the memory be input `index` of the compilation's executions."""
        self._add_role(Role(compilation, Direction.INPUT, index), frequency)

    def addOutputRole(self, compilation: CompilationBuilder, index: int, frequency: float) -> None:
        """Lets the memory be output `index` of the compilation's executions."""
        self._add_role(Role(compilation, Direction.OUTPUT, index), frequency)

    def _add_role(self, role: Role, frequency: float) -> None:
        """Adds a role; all roles must have the same operand type."""
        self._open()
        if role in self.roles:
            raise bad_data("the role is there already")
        operand = role_operand(role)
        if self.operand is not None and not same_type(self.operand, operand):
            raise bad_data("roles differ in type, scale, zero point or channels")
        if self.dimensions and not operand.type.tensor:
            raise bad_data("a scalar has no dimensions")
        dimensions = combined(self.dimensions, operand.dimensions)
        if not 0 < frequency <= 1:
            raise bad_data(f"frequency {frequency} is not in (0, 1]")
        self.roles.append(role)
        self.operand, self.dimensions = operand, dimensions

    def setDimensions(self, rank: int, sizes: CData) -> None:
        """Sets dimensions that the models leave unknown."""
        require(sizes, "dimensions", rank)
        dimensions = numbers(sizes, rank)
        self._open()
        if dimensions and self.operand is not None and not self.operand.type.tensor:
            raise bad_data("a scalar has no dimensions")
        self.dimensions = combined(self.dimensions, dimensions)

    def finish(self) -> None:
        """Finishes the descriptor."""
        self._open()
        if not self.roles:
            raise bad_data("a memory takes at least one role")
        self.finished = True

    def _open(self) -> None:
        if self.finished:
            raise bad_state("the descriptor is finished")


def role_operand(role: Role) -> Operand:
    """Returns the operand of a role; Refused(BAD_DATA) also if the compilation is unfinished."""
    try:
        role.compilation.require_ready()
    except Refused as refused:
        raise bad_data(str(refused)) from None
    return role.compilation.operand(role.direction, role.index)


DESCRIPTORS: Handles[Descriptor] = Handles("MemoryDesc", Descriptor)
