"""Readers of C arguments: lists, operand types, scales; operands as clients describe them.

A client may pass any count. Short lists are read directly; longer ones through a system call,
which reports unmapped memory instead of crashing the process.

Of the two deprecated vendor (OEM) types operands are stored but never computed: a model that
contains one can be finished, but no device here supports its operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from math import prod
from struct import calcsize, iter_unpack
from typing import TYPE_CHECKING, TypeAlias

from ep_nnapi.nnapi.capi._native import ffi, lib
from ep_nnapi.nnapi.capi.refusal import bad_data, unexpected_null
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import ChannelQuantization, Operand, OperandValue
from ep_nnapi.nnapi.validate import check_type

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData, ChannelParams, OperandType


class OemCode(IntEnum):
    """Vendor operand types. Source: NeuralNetworksOEM.h."""

    OEM_SCALAR = 10000
    TENSOR_OEM_BYTE = 10001

    @property
    def tensor(self) -> bool:
        """True for a tensor, False for a scalar."""
        return self is OemCode.TENSOR_OEM_BYTE


OEM_OPERATION = 10000
"""The vendor operation. Source: NeuralNetworksOEM.h."""


@dataclass(frozen=True, slots=True)
class OemOperand:
    """An operand of a vendor type; only the vendor knows what its fields mean."""

    type: OemCode
    dimensions: tuple[int, ...] = ()
    value: OperandValue = None

    @property
    def known(self) -> bool:
        """True if every dimension is known."""
        return not self.type.tensor or (bool(self.dimensions) and 0 not in self.dimensions)


AnyOperand: TypeAlias = Operand | OemOperand


def operand(
    code: int, dimensions: tuple[int, ...], scale: float, zero_point: int, level: int
) -> AnyOperand:
    """Returns an operand without a value; raises Refused(BAD_DATA) if `level` does not have it."""
    if code in (OemCode.OEM_SCALAR, OemCode.TENSOR_OEM_BYTE):
        vendor = OemOperand(OemCode(code), dimensions)
        if dimensions and not vendor.type.tensor:
            raise bad_data("a scalar has no dimensions")
        return vendor
    try:
        described = Operand(OperandCode(code), dimensions, scale, zero_point)
        check_type(described)
    except (ValueError, SpecError) as error:
        raise bad_data(str(error)) from error
    if described.type.level > level:
        raise bad_data(f"{described.type.name} came with feature level {described.type.level}")
    return described


def bytes_of(described: AnyOperand, dimensions: tuple[int, ...]) -> int:
    """Returns the size in bytes of an operand with those dimensions; 0 if some are unknown."""
    if isinstance(described, OemOperand):
        return prod(dimensions) if described.type.tensor and dimensions else 0
    if described.type is OperandCode.MODEL or (described.type.tensor and not dimensions):
        return 0
    return prod(dimensions) * described.type.numpy.itemsize


_SHORT = 64
_CHUNK = 1 << 16
_LONGEST = 1 << 24
"""Most entries of a list; a greater count is taken for an error."""


def numbers(pointer: CData, count: int) -> tuple[int, ...]:
    """Returns `count` 32-bit integers at `pointer`; raises Refused(BAD_DATA)."""
    return _entries(pointer, count, "I")


def reals(pointer: CData, count: int) -> tuple[float, ...]:
    """Returns `count` floats at `pointer`; raises Refused(BAD_DATA)."""
    return tuple(map(float, _entries(pointer, count, "f")))


def _entries(pointer: CData, count: int, kind: str) -> tuple[int, ...]:
    """Returns a list of entries; `kind` is a format character of `struct`."""
    if count > _LONGEST:
        raise bad_data(f"a list of {count} entries")
    if count <= _SHORT or not _kernel_reads():
        return tuple(ffi.unpack(pointer, count)) if count else ()
    size, address = calcsize(kind), int(ffi.cast("uintptr_t", pointer))
    chunks = (
        _read(address + i * size, min(_CHUNK, count - i) * size) for i in range(0, count, _CHUNK)
    )
    return tuple(n for chunk in chunks for (n,) in iter_unpack(kind, chunk))


def operand_type(pointer: OperandType, level: int) -> AnyOperand:
    """Returns the operand of an ANeuralNetworksOperandType; raises Refused(BAD_DATA)."""
    count, dimensions = pointer.dimensionCount, pointer.dimensions
    if (count == 0) is not (dimensions == ffi.NULL):
        raise bad_data(f"dimensionCount is {count}, dimensions is {dimensions}")
    sizes = numbers(dimensions, count)
    return operand(pointer.type, sizes, pointer.scale, pointer.zeroPoint, level)


def channels(pointer: ChannelParams, into: AnyOperand) -> ChannelQuantization:
    """Returns the scales for the tensor `into`; raises Refused(BAD_DATA) if they do not fit it."""
    dim, count = pointer.channelDim, pointer.scaleCount
    sizes = into.dimensions
    if dim >= len(sizes) or sizes[dim] != count or count == 0:
        raise bad_data(f"{count} scales along dimension {dim} of a tensor {list(sizes)}")
    if pointer.scales == ffi.NULL:
        raise bad_data("scales is null")
    scales = reals(pointer.scales, count)
    if not all(s > 0 for s in scales):
        raise bad_data("a scale is not above 0")
    return ChannelQuantization(dim, scales)


def text(pointer: CData) -> str:
    """Returns a C string."""
    return ffi.string(pointer).decode(errors="surrogateescape")


def require(pointer: object, name: str, count: int = 1) -> None:
    """Raises Refused(UNEXPECTED_NULL) for null, unless it is to point to nothing: `count` is 0."""
    if count and pointer == ffi.NULL:
        raise unexpected_null(name)


@cache
def _kernel_reads() -> bool:
    """True if the system call that reads this process's memory works; some sandboxes forbid it."""
    source, into = ffi.new("char[1]"), ffi.new("char[1]")
    return lib.read_own_memory(int(ffi.cast("uintptr_t", source)), into, 1) == 1


def _read(address: int, size: int) -> bytes:
    into = ffi.new("char[]", size)
    read = lib.read_own_memory(address, into, size)
    if read < 0:
        raise bad_data(f"a list at {address:#x} cannot be read")
    if read != size:
        raise bad_data(f"a list at {address:#x} ends after {read} bytes")
    return bytes(ffi.buffer(into, size))
