# ruff: noqa: N802 (functions have the NDK's names)
"""Memory objects: mapped files, and device memory that only its declared roles may use.

Source: NDK ANeuralNetworksMemory*_*; checks run in the same order as Android's.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.c_arguments import bytes_of, numbers
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder, Direction
from ep_nnapi.nnapi.capi.model import ModelBuilder
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


class FileMemory:
    """A mapping of `size` bytes of a file; later changes of the file are visible."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @staticmethod
    def map(size: int, protect: int, fd: int, offset: int) -> FileMemory:
        """Maps the file; raises Refused: BAD_DATA, or UNMAPPABLE if the file cannot be mapped."""
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

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.array.size

    def bytes(self, region: MemoryRegion) -> Array:
        """Returns the bytes of a region; raises Refused(BAD_DATA) if it is out of bounds."""
        if region.offset == 0 and region.length == 0:
            raise bad_data("the length of a region of a file cannot be implied")
        if region.offset + region.length > self.size:
            raise bad_data(f"bytes {region.offset} + {region.length} of {self.size}")
        return self.array[region.offset : region.offset + region.length]

    def check(self, role: Role, region: MemoryRegion) -> None:
        """Raises Refused(BAD_DATA) unless an execution may use the region in this role."""
        self.bytes(region)
        if role.direction is Direction.OUTPUT and not self.array.flags.writeable:
            raise bad_data("the memory is mapped for reading only")


@dataclass(slots=True, eq=False)
class DeviceMemory:
    """A tensor or scalar in device memory: opaque, usable only in its declared roles.

    value   None until an execution or a copy writes it, and after one of these failed
    """

    roles: frozenset[Role]
    operand: Operand
    initial: Dimensions
    value: Array | None = None

    def check(self, role: Role, region: MemoryRegion) -> None:
        """Raises Refused(BAD_DATA) unless an execution may use the memory in this role."""
        if role not in self.roles:
            raise bad_data(f"the memory was not described for this {role.direction}")
        if region.offset or region.length:
            raise bad_data("a device's memory is used as a whole: offset and length are 0")
        if region.dimensions is not None:
            combined(region.dimensions, self.initial)

    def read(self, dimensions: Dimensions) -> Array:
        """Returns the value; raises Refused(OP_FAILED) if unwritten, or of other dimensions."""
        if self.value is None:
            raise op_failed("a device's memory is read before it is written")
        if self.value.shape != dimensions:
            raise op_failed(f"a memory of {self.value.shape} is read as {dimensions}")
        return self.value

    def bytes(self, region: MemoryRegion) -> Array:
        """Raises Refused(BAD_DATA): the contents are accessible only through the roles."""
        raise bad_data("a device's memory is no model constant")


AnyMemory: TypeAlias = FileMemory | DeviceMemory


def copy(source: AnyMemory, target: AnyMemory) -> None:
    """Copies a whole memory; a device memory has no value after a failed copy into it."""
    if source is target:
        return
    if isinstance(target, FileMemory):
        _copy_to_file(_content(source), target)
        return
    target.value = None
    target.value = _content_for(source, target)


def _content(source: AnyMemory) -> Array:
    if isinstance(source, FileMemory):
        return source.array
    if source.value is None:
        raise bad_data("the source has no value")
    return source.value.reshape(-1).view(np.uint8)


def _copy_to_file(content: Array, target: FileMemory) -> None:
    if content.size != target.size:
        raise bad_data(f"{content.size} bytes do not fill {target.size}")
    if not target.array.flags.writeable:
        raise bad_data("the target is mapped for reading only")
    target.array[:] = content


def _content_for(source: AnyMemory, target: DeviceMemory) -> Array:
    content, operand = _content(source), target.operand
    dimensions = target.initial
    if isinstance(source, DeviceMemory):
        if not same_type(source.operand, operand):
            raise bad_data("source and target differ in type, scale, zero point or channels")
        dimensions = combined(source.value.shape if source.value is not None else (), dimensions)
    if content.size != bytes_of(operand, dimensions):
        raise bad_data(f"{content.size} bytes are no {operand.type.name} {list(dimensions)}")
    return content.copy().view(operand.type.numpy).reshape(dimensions)


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


MEMORIES: Handles[AnyMemory] = Handles("Memory")


@dataclass(slots=True, eq=False)
class Descriptor:
    """The object behind ANeuralNetworksMemoryDesc; every method may raise Refused."""

    roles: list[Role] = field(default_factory=list)
    operand: Operand | None = None
    dimensions: Dimensions = ()
    finished: bool = False

    def add_role(self, role: Role, frequency: float) -> None:
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

    def set_dimensions(self, dimensions: Dimensions) -> None:
        """Sets dimensions that the models leave unknown."""
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

    def allocate(self) -> DeviceMemory:
        """Returns a new device memory, not yet written."""
        if not self.finished or self.operand is None:
            raise bad_state("the descriptor is not finished")
        return DeviceMemory(frozenset(self.roles), self.operand, self.dimensions)

    def _open(self) -> None:
        if self.finished:
            raise bad_state("the descriptor is finished")


def role_operand(role: Role) -> Operand:
    """Returns the operand of a role; Refused(BAD_DATA) also if the compilation is unfinished."""
    if not role.compilation.is_executable:
        raise bad_data("the compilation is not finished, or failed")
    return role.compilation.operand(role.direction, role.index)


DESCRIPTORS: Handles[Descriptor] = Handles("MemoryDesc")


def Memory_createFromFd(size: int, protect: int, fd: int, offset: int) -> AnyMemory:
    """Creates a memory from a mapped file; the descriptor may be closed afterwards."""
    return FileMemory.map(size, protect, fd, offset)


def Memory_createFromAHardwareBuffer(buffer: int) -> AnyMemory:
    """Always UNMAPPABLE: hardware buffers exist on Android only."""
    if buffer == 0:
        raise unexpected_null("ahwb")
    raise Refused(ResultCode.UNMAPPABLE, "this system has no hardware buffers")


def Memory_createFromDesc(desc: Descriptor) -> AnyMemory:
    """Creates a device memory for the roles of a descriptor."""
    return desc.allocate()


def Memory_copy(source: AnyMemory, target: AnyMemory) -> None:
    """Copies the whole of one memory into another."""
    copy(source, target)


def MemoryDesc_create() -> Descriptor:
    """Creates an empty descriptor."""
    return Descriptor()


def MemoryDesc_addInputRole(
    desc: Descriptor, compilation: CompilationBuilder, index: int, frequency: float
) -> None:
    """Lets the memory be input `index` of the compilation's executions."""
    desc.add_role(Role(compilation, Direction.INPUT, index), frequency)


def MemoryDesc_addOutputRole(
    desc: Descriptor, compilation: CompilationBuilder, index: int, frequency: float
) -> None:
    """Lets the memory be output `index` of the compilation's executions."""
    desc.add_role(Role(compilation, Direction.OUTPUT, index), frequency)


def MemoryDesc_setDimensions(desc: Descriptor, rank: int, dimensions: CData) -> None:
    """Sets dimensions that the models leave unknown."""
    if rank and dimensions == ffi.NULL:
        raise unexpected_null("dimensions")
    desc.set_dimensions(numbers(dimensions, rank))


def MemoryDesc_finish(desc: Descriptor) -> None:
    """Finishes the descriptor."""
    desc.finish()


def Model_setOperandValueFromMemory(
    model: ModelBuilder, index: int, memory: AnyMemory, offset: int, length: int
) -> None:
    """Sets a constant from a memory object, which is referenced, not copied."""
    model.check_constant(index, length)
    model.set_value(index, memory.bytes(MemoryRegion(offset, length)))
