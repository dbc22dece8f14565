"""Rows of a table of lowerings: an NNAPI operation, its types and the function that lowers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.ort_devices.operation import Op

BINARY = ("input1", "input2")
"""Names of the tensors of operations on two."""

Lowering: TypeAlias = Callable[[Op], None]
"""Lowers an operation to ONNX."""

_Op = TypeVar("_Op")
"""An operation as the lowerings of one table see it."""


@frozen
class Row(Generic[_Op]):
    """One row; `codes` are the types of the signature's type variable T, empty for all types."""

    spec: OperationSpec
    lower: Callable[[_Op], None]
    codes: tuple[OperandCode, ...]


Table: TypeAlias = Mapping[tuple[OperationSpec, OperandCode | None], Callable[[_Op], None]]


def row(spec: OperationSpec, lower: Callable[[_Op], None], *codes: OperandCode) -> Row[_Op]:
    """A row of the table."""
    return Row(spec, lower, codes)


def table(*rows: Row[_Op]) -> Table[_Op]:
    """Lowerings by operation and type (None: any type); each pair may occur only once."""
    found: dict[tuple[OperationSpec, OperandCode | None], Callable[[_Op], None]] = {}
    for each in rows:
        for code in each.codes or (None,):
            if (each.spec, code) in found:
                types = code.name if code is not None else "any type"
                raise ValueError(f"{each.spec} has two lowerings for {types}")
            found[each.spec, code] = each.lower
    return found
