"""Operands of the C API: NNAPI's own, and the two deprecated vendor (OEM) types.

Vendor operands are stored but never computed: a model that contains one can be finished, but no
device here supports its operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import TypeAlias

from ep_nnapi.nnapi.capi.refusal import bad_data
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import Operand, OperandValue
from ep_nnapi.nnapi.validate import check_type


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
