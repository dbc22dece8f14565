"""One operation with its operands, taken out of its model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ep_nnapi.nnapi.codes import COPIED_AT_ONCE, HIGHEST_LEVEL
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import model_digest
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params


@dataclass(frozen=True, slots=True)
class OperationUse:
    """An operation, its operands in NNAPI's order and the parameter of each.

    relaxed   True if the model allows float32 to be computed as float16
    """

    spec: OperationSpec
    input_params: Params
    output_params: Params
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    relaxed: bool = False

    @property
    def named_inputs(self) -> Iterator[tuple[Param, Operand]]:
        """The inputs with their parameters."""
        return zip(self.input_params, self.inputs, strict=True)

    @property
    def named_outputs(self) -> Iterator[tuple[Param, Operand]]:
        """The outputs with their parameters."""
        return zip(self.output_params, self.outputs, strict=True)

    @property
    def digest(self) -> str:
        """Digest of all that a driver can see of the operation, in hexadecimal.

        Of constants that a driver maps instead of reading (over 128 bytes) it covers the type, the
        shape and the quantization only: drivers do not choose by the weights in them.
        """
        whole = hashlib.sha256(f"{self.spec.name} {self.relaxed}".encode())
        for operand in (*self.inputs, *self.outputs):
            whole.update(_described(operand))
        return whole.hexdigest()[:32]


def uses(model: Model) -> Iterator[OperationUse]:
    """The operations of a valid model, in its order."""
    for n, operation in enumerate(model.operations):
        match = model.match(n, HIGHEST_LEVEL)
        inputs, outputs = (
            tuple(model.operands[i] for i in ends) for ends in (operation.inputs, operation.outputs)
        )
        yield OperationUse(
            operation.spec, match.inputs, match.outputs, inputs, outputs, model.relaxed
        )


def _described(operand: Operand) -> bytes:
    channels = operand.channels and (operand.channels.dim, operand.channels.scales)
    about = (operand.dimensions, operand.scale, operand.zero_point, channels)
    value = operand.value
    text = f"{operand.type.name} {about} {type(value).__name__}\n".encode()
    if isinstance(value, Model):
        return text + model_digest(value)
    if isinstance(value, Data) and value.bytes.size <= COPIED_AT_ONCE:
        return text + value.bytes.tobytes() + b"\n"
    return text
