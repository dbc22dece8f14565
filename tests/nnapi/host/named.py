"""Operations with named operands, for tests of what calls kernels."""

from collections.abc import Mapping

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import NamedOperation
from ep_nnapi.nnapi.model import Operand, Operation
from ep_nnapi.nnapi.signature import OperationSpec

SCALE, ZERO_POINT = 0.5, 100


def named(
    row: OperationSpec,
    code: OperandCode,
    tensors: Mapping[str, tuple[int, ...]],
    output: tuple[int, ...],
    scalars: Mapping[str, int],
) -> tuple[NamedOperation, dict[str, int]]:
    """An operation on tensors of type `code`, and the operand index of each name."""
    coded = (SCALE, ZERO_POINT) if code.quantized else (0.0, 0)
    operands = {name: Operand(code, shape, *coded) for name, shape in tensors.items()}
    operands |= {name: Operand(OperandCode.INT32) for name in scalars}
    index = {name: i for i, name in enumerate(operands)}
    out = len(index)
    every = [*operands.values(), Operand(code, output, *coded)]
    operation = Operation(row, tuple(index.values()), (out,))
    return NamedOperation(operation, index, {"output": out}, code, every), index
