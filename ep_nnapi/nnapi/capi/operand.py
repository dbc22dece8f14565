"""Operands as the C API takes them: NNAPI's own, and the two deprecated vendor (OEM) types.

A vendor type is stored, never computed with: a model that holds one finishes, and no device here
supports its operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import TypeAlias

from ep_nnapi.errors import SpecError
from ep_nnapi.nnapi.capi.refusal import bad_data
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand, OperandValue
from ep_nnapi.nnapi.operand import check_type, describe


class OemCode(IntEnum):
    """Operand types of vendors. Source: NeuralNetworksOEM.h."""

    OEM_SCALAR = 10000
    TENSOR_OEM_BYTE = 10001

    @property
    def tensor(self) -> bool:
        """Whether it has dimensions."""
        return self is OemCode.TENSOR_OEM_BYTE


OEM_OPERATION = 10000
"""The operation of vendors. Source: NeuralNetworksOEM.h."""


@dataclass(frozen=True, slots=True)
class OemOperand:
    """An operand of a vendor's type; the meaning of everything in it is the vendor's."""

    type: OemCode
    dimensions: tuple[int, ...] = ()
    value: OperandValue = None

    @property
    def known(self) -> bool:
        """Whether every dimension is known."""
        return not self.type.tensor or (bool(self.dimensions) and 0 not in self.dimensions)


AnyOperand: TypeAlias = Operand | OemOperand


def operand(
    code: int, dimensions: tuple[int, ...], scale: float, zero_point: int, level: int
) -> AnyOperand:
    """An operand without a value; raises Refused(BAD_DATA) for one that `level` does not know."""
    if code in (OemCode.OEM_SCALAR, OemCode.TENSOR_OEM_BYTE):
        vendor = OemOperand(OemCode(code), dimensions)
        if dimensions and not vendor.type.tensor:
            raise bad_data("a scalar has no dimensions")
        return vendor
    try:
        made = Operand(OperandCode(code), dimensions, scale, zero_point)
        check_type(made, describe(made))
    except (ValueError, SpecError) as error:
        raise bad_data(str(error)) from error
    if made.type.level > level:
        raise bad_data(f"{made.type.name} came with feature level {made.type.level}")
    return made


def bytes_of(described: AnyOperand, dimensions: tuple[int, ...]) -> int:
    """Bytes of such an operand of those dimensions; 0 while these are not all known."""
    if isinstance(described, OemOperand):
        return prod(dimensions) if described.type.tensor and dimensions else 0
    if described.type is OperandCode.MODEL or (described.type.tensor and not dimensions):
        return 0
    return prod(dimensions) * described.type.numpy.itemsize
