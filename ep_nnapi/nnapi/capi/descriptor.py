"""Descriptors of device memory: the roles and the dimensions that a client declares.

Source: NDK ANeuralNetworksMemoryDesc_*; checks run in the same order as Android's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ep_nnapi.nnapi.capi.memory import (
    DeviceMemory,
    Dimensions,
    Direction,
    Role,
    combined,
    same_type,
)
from ep_nnapi.nnapi.capi.refusal import bad_data, bad_state
from ep_nnapi.nnapi.model import Operand


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
    inward = role.direction is Direction.INPUT
    operands = role.compilation.inputs if inward else role.compilation.outputs
    if role.index >= len(operands):
        raise bad_data(f"{role.direction} {role.index} of {len(operands)}")
    return operands[role.index]
