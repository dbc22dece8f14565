"""Traits of NNAPI operations: the properties that shape inference, layouts and quantization use."""

from __future__ import annotations

from enum import Enum

from ep_nnapi.nnapi.immutable import frozen


class AxisUse(Enum):
    """Use of the operand `axis` (or `axes`) by an operation on its operand `input`."""

    ALONG = "the output keeps the axis; the last one if the operand is omitted"
    REMOVED = "the output lacks the axis"
    REDUCED = "the output has size 1 along the axes if `keep_dims` is set, else lacks them"


@frozen
class Traits:
    """Properties of an operation beyond its signature, a part of its row in `spec`.

    elementwise          names of the operands that broadcast to the shape of the output
    axis                 use of the operand `axis` or `axes`; None if there is none
    per_axis             names of the operands that have one entry for each axis of `input`
    keeps_quantization   the output has the scale and the zero point of the first input
    selects              each output element is one of the inputs' elements, or a limit of them;
                         the operation does not round
    output_quantization  the scale and the zero point that an unsigned 8-bit output must have
    """

    elementwise: tuple[str, ...] = ()
    axis: AxisUse | None = None
    per_axis: tuple[str, ...] = ()
    keeps_quantization: bool = False
    selects: bool = False
    output_quantization: tuple[float, int] | None = None

    @property
    def clamps(self) -> bool:
        """True for activations that limit the range of their input (RELU, RELU1, RELU6)."""
        return bool(self.elementwise) and self.keeps_quantization and self.selects


NO_TRAITS = Traits()
