"""A device that computes as nnapi-reference, but for wrong results of chosen operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np

from ep_nnapi.nnapi.codes import DeviceCode, OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.nnapi.spec import MUL
from ep_nnapi.options.table import HOST
from ep_nnapi.provider import devices as runtimes

WRONG = "wrong"


@dataclass(frozen=True)
class WrongDevice:
    """Scales every other element of the float32 outputs of operations for which `wrong` is true.

    scales    factors of the elements, in turn
    """

    wrong: Callable[[Operation], bool]
    scales: tuple[float, float] = (0.5, 1.5)
    name: str = WRONG
    type: DeviceCode = DeviceCode.ACCELERATOR
    version: str = "1"
    feature_level: int = 8
    reference: ReferenceDevice = field(default_factory=ReferenceDevice)

    def supported(self, model: Model) -> tuple[bool, ...]:
        return self.reference.supported(model)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        return self.reference.prepare(self._altered(model), options)

    def _altered(self, model: Model) -> Model:
        """The model with a multiplication after each float32 output of a wrong operation."""
        operands, operations = list(model.operands), []
        for operation in model.operations:
            right = dict.fromkeys(operation.outputs)
            for index in right if self.wrong(operation) else ():
                if operands[index].type is OperandCode.TENSOR_FLOAT32:
                    right[index] = len(operands)
                    operands += self._right_scale_and_fuse(operands[index])
            outputs = tuple(index if new is None else new for index, new in right.items())
            operations.append(replace(operation, outputs=outputs))
            operations += [
                Operation(MUL, (new, new + 1, new + 2), (index,), operation.origin)
                for index, new in right.items()
                if new is not None
            ]
        return Model(tuple(operands), tuple(operations), model.inputs, model.outputs, model.relaxed)

    def _right_scale_and_fuse(self, output: Operand) -> list[Operand]:
        """Operands of a multiplication: the right result, the factors, no fused activation."""
        factors = np.resize(np.array(self.scales, np.float32), output.dimensions)
        none = Operand(OperandCode.INT32, value=Data.of(np.int32(0)))
        return [output, replace(output, value=Data.of(factors)), none]


@contextmanager
def installed(
    wrong: Callable[[Operation], bool], scales: tuple[float, float] = (0.5, 1.5)
) -> Iterator[None]:
    """The host runtime with such a device before nnapi-reference, for sessions made meanwhile."""
    runtime = HostRuntime([WrongDevice(wrong, scales), ReferenceDevice()])
    with patch.dict(runtimes.RUNTIMES, {HOST: lambda: runtime}):
        yield


def of_node(name: str) -> Callable[[Operation], bool]:
    """True for operations that come from the ONNX node `name`, fused ones too."""
    return lambda operation: name in operation.origin
